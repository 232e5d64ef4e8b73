"""Rules for frames: which are accepted, where outputs go, and what is dropped for want of room.
Running tasks on them is decided in `execution`.
"""
