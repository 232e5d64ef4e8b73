"""The assignment: what a new one changes here, and which blobs to fetch for it.
Loading what was fetched is decided in `execution`.
"""
