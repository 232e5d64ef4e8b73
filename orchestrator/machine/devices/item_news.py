"""Items that devices speak of: found, and noted as going on if it is news."""

from __future__ import annotations

from orchestrator.machine.items import recovery
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.state import State

NEVER = float("inf")


def find(state: State, device: Device, run: str, index: int) -> Item | None:
    """The item if it is under way. What is over, and runs that we do not know, the device may
    forget; an item that is still to come it must not, or its frames would be refused there."""
    known = state.runs.get(run)
    if known is None:
        state.counts["unknown_run"] += 1
        state.commands.cancel_run(device.name, run)
        return None
    item = known.items.get(index)
    if item is None and known.open and index not in known.ended:
        state.counts["unknown_item"] += 1
        return None
    if item is None:
        state.counts["late_event"] += 1
        state.commands.cancel_item(device.name, run, index, state.now)
        return None
    item.touch(device.name)
    return item


def note(state: State, item: Item, what: str, cut: int, device: Device) -> None:
    plan = state.plan_of(item)
    if item.note(what, cut, device.name, state.now) and plan is not None:
        state.runs[item.run].progressed(state.now)
        if item.check_at == NEVER:  # else that look sees the news, and waits on
            recovery.watch(state, plan, item)
