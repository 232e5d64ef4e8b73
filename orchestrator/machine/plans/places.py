"""Notes who has a place, as assignments are published or found retained.

A device that spoke of a place before it was known to have it is asked what it holds, once it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from orchestrator.machine.records.device import Device
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from wire.ids import PartitionId
from wire.topics import ORCHESTRATOR

MOST = 256  # former senders in an assignment: agents keep those of before by themselves


def note(state: State, name: str, parts: Iterable[PartitionId]) -> None:
    """An assignment of the device lists these ranges."""
    news = state.places.note(name, tuple(parts))
    device = state.devices.get(name)
    if news and device is not None and device.unplaced:
        device.unplaced = False
        _ask_anew(state, device)


def note_former(state: State, name: str, parts: tuple[PartitionId, ...]) -> None:
    """An assignment from before our start lists these ranges: whoever takes what was made there
    is to know."""
    note(state, name, parts)
    for part in parts:
        plan = state.plans.get((part.model, part.exact))
        after = plan.stage_of(part.cut) if plan is not None else None
        if after is not None:
            for taker in filter(None, (after.device, *after.standins)):
                state.agenda.look("assignment", taker)


def _ask_anew(state: State, device: Device) -> None:
    device.reported_at = float("-inf")
    state.ask_report(device)


def senders_to(state: State, plan: Plan, part: PartitionId) -> tuple[str, ...]:
    """Who may send into the range: whoever has or had a place before it. Inputs, also those that
    went home, come from us."""
    if part.first == 0:
        return (ORCHESTRATOR,)
    names = set(state.places.makers(plan.key, part.first, MOST))
    for placement in plan.placements:
        if placement.partition.cut == part.first:
            names.update(placement.standins)
            names.update([placement.device] if placement.device is not None else [])
    return tuple(sorted(names))
