"""The one way to the broker, for every program: connection, couriers of frames, link measurement.

Carries messages and frames and says what became of them. What they mean, and who gets what, is for
whoever uses it; the protocol itself is in `wire`. Nothing else of ours touches paho.
"""
