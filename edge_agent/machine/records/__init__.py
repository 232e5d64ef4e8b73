"""The agent's records (partitions, held frames, cache, slot ...), its events and its instructions.
Decides nothing: the rules are in the folders beside this.
"""
