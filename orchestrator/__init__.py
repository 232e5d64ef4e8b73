"""The orchestrator: decides who serves which segments, admits items, and never loses one.

Knows graphs and devices; never touches an activation between the first cut and the last.
"""

__version__ = "0.1.0"
