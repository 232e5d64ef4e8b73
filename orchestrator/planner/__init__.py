"""Which ranges of segments a model is served in, by which devices, and when each is assigned.
Pure arithmetic over what devices offer and what was measured; knows no machine, run or message.
"""
