"""Rules for frames: which are taken, where they wait, where outputs go, what gives way.
Running them is `execution`'s.
"""
