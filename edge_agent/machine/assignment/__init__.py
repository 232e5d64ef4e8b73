"""Obeying the assignment: what it changes, and which blobs to fetch for it.
What is loaded of it is `execution`'s.
"""
