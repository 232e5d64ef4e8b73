"""The desk as the device sees it: connections, commands that are obeyed, and what is reported.
What is loaded and run is `execution`'s.
"""
