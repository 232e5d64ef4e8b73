"""Lives: the state is one that the table has, and each step noted is one that it allows."""

from __future__ import annotations

from itertools import pairwise

from edge_agent.machine.records.transitions import TABLE, Life
from edge_agent.machine.validation.broken import check


def check_life(life: Life) -> None:
    table, steps = TABLE[life.kind], life.history
    who = f"{life.kind} {life.entity}"
    check(life.state in table, f"{who} is in a state that does not exist", life)
    for before, after in pairwise(steps):
        legal = after.entered in table[before.entered]
        check(legal, f"{who}: {before.entered} -> {after.entered} is no step", life)
        check(before.at <= after.at, f"{who}: time went back", life)
    if steps:
        check(steps[-1].entered == life.state, f"{who} changed its state by no step", life)
