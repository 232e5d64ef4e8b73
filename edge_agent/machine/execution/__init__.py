"""The one slot in memory: what to load, run and evict next, and what follows when that ends.
Which frames may wait is decided in `frames`, which partitions there are in `assignment`.
"""
