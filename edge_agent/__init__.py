"""The edge agent: fetches, caches, loads, executes and forwards on one device.

Knows sessions, not graphs or fleets: what to serve comes as an assignment. Imports `wire` and
nothing else of ours.
"""

__version__ = "0.1.0"
