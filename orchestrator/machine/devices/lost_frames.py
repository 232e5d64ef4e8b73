"""Frames that came to nothing where they were read: sent again, and if that does not help, who is
at fault.

What cannot be read, or never ends, is its sender's doing, and no reason to end the item: another
device does that task. A sender that goes on is not heeded, so that none who had a place once can
hold up an item that others now have.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.machine.devices import replacing
from orchestrator.machine.items import recovery
from orchestrator.machine.items.outcomes import fail
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from wire.errors import Malformed, TimedOut
from wire.topics import ORCHESTRATOR

OF_THE_SENDER = frozenset({Malformed.kind, TimedOut.kind})


@dataclass(frozen=True, slots=True)
class Told:
    """What was said of it. `sender` is empty where no copy had come."""

    device: str
    sender: str
    kind: str
    reason: str


def lost(state: State, plan: Plan, item: Item, cut: int, told: Told) -> None:
    if item.drops.get(told.sender, 0) > state.options.drops:
        state.counts["unheeded_frame_lost"] += 1
        return
    if recovery.frame_dropped(state, plan, item, cut, told.device, told.sender):
        return
    reason = f"{told.device} gave its frame up {item.drops[told.sender]} times: {told.reason}"
    first = _made_by(plan, cut)
    if first is None or told.kind not in OF_THE_SENDER or told.sender in ("", ORCHESTRATOR):
        fail(state, item, told.kind, reason)
        return
    item.forget_holder(told.sender, cut)
    item.retry_by(state.now)
    replacing.task_failed(state, plan, item, first, told.sender, told.kind, reason)


def _made_by(plan: Plan, cut: int) -> int | None:
    """Where the stage begins whose output is at that cut."""
    stages = (each.partition for each in plan.placements)
    return next((each.first for each in stages if each.cut == cut), None)
