"""A system of real processes in which any may end, stop or come back while a run is under way.

The subject `faults` has many trials made here; what they show is arithmetic (`figures`).
"""
