"""Devices that became slow while their plan works: throttled by heat, or by a person who plays.

A plan is made by what was known, and is judged anew when that is not so any more: when what a
device takes for its tasks has trebled, and stays so. A group of short tasks waits for the same turn
of a busy processor, so that several slow ones in a row are one hiccup. Whether another plan is
worth its price is decided in `planning`.
"""

from __future__ import annotations

from orchestrator.machine.items.recovery import stage_s
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State

KNOWN = 3  # tasks that its expected time comes from, before it is compared
SLOWED = 3.0
STAYS_S = 2.0


def task_done(state: State, plan: Plan, placement: Placement) -> None:
    """The device's time for this partition was measured again."""
    device, part = placement.device, placement.partition
    if device is None or state.estimates.tasks_seen(device, part) < KNOWN:
        return
    lately_s, usual_s = state.estimates.lately_s(device, part), placement.usual_s
    if lately_s is None or usual_s is None or lately_s <= SLOWED * usual_s:
        took_s = stage_s(state, placement)
        placement.usual_s = took_s if usual_s is None else min(usual_s, took_s)
        placement.slow_since = None
    elif placement.slow_since is None:
        placement.slow_since = state.now
    elif state.now >= placement.slow_since + STAYS_S:
        state.estimates.slowed(device, part, lately_s / usual_s)
        placement.usual_s, placement.slow_since = lately_s, None
        plan.judged = False
        state.counts["slowed"] += 1
        state.agenda.look("plan", plan.key)
