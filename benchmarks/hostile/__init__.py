"""Senders who are broken, or lie: malformed messages at a rate, on every topic that they may write.

The subject `hostile` has a served model attacked from here, by a process of its own.
"""
