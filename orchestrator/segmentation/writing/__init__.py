"""Segments as content: graphs that refer to their weights by digest, and where the bytes go.
Which nodes a segment has was decided in `cutting`.
"""
