"""Where to cut, what lives across each cut, and what each segment computes, takes and costs.
Pure over the graph that was read and typed; writes nothing.
"""
