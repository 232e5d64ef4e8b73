"""The agent's disk and how it fills: blobs by digest, what was prepared of them, frames that wait.
Fetches over HTTP; runs nothing.
"""
