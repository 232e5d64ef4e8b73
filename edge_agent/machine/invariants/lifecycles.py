"""Lives: the state is one that the table has, and each step noted is one that it allows."""

from __future__ import annotations

from itertools import pairwise

from edge_agent.machine.invariants.checks import check
from wire.lifecycle import Lifecycle


def check_life(life: Lifecycle) -> None:
    table, steps, who = life.table, life.history, f"{life.kind} {life.name}"
    check(life.state in table, f"{who} is in a state that does not exist", life)
    for (at, before, _), (later, after, _) in pairwise(steps):
        check(after in table[before], f"{who}: {before} -> {after} is no step", life)
        check(at <= later, f"{who}: time went back", life)
    check(steps[-1][1] == life.state, f"{who} changed its state by no step", life)
