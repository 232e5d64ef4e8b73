"""The one place in memory: what to load, run and evict next, and what the end of each means.
Which frames wait for it is `frames`'; which partitions there are is `assignment`'s.
"""
