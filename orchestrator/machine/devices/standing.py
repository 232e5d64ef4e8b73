"""Whether a device may say what it says: only of ranges and cuts where it has or had a place.

What others say of an item changes nothing of it: it is counted, by what it spoke of. It may all
the same be true, of a place that an orchestrator before us gave and that nobody remembers. So what
it says that it holds is noted as a stray: nothing counts on it, and it is let go of when the item
is over, or when the device has no room.
"""

from __future__ import annotations

from orchestrator.machine.records.device import Device
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import PlanKey
from orchestrator.machine.records.state import State
from wire.ids import PartitionId, TaskId
from wire.topics import ORCHESTRATOR


def takes(state: State, device: Device, item: Item, cut: int, what: str) -> bool:
    """It may speak of an input at the cut."""
    return _heed(state, device, state.places.takes(device.name, _key(state, item), cut), what)


def makes(state: State, device: Device, item: Item, cut: int, what: str) -> bool:
    """It may speak of an output at the cut; if not, what it holds is noted as a stray."""
    placed = state.places.makes(device.name, _key(state, item), cut)
    if not placed:
        _note_stray(state, device, item, cut)
    return _heed(state, device, placed, what)


def serves(state: State, device: Device, item: Item, task: TaskId, what: str) -> bool:
    """It may speak of the task."""
    part = PartitionId(*_key(state, item), task.first, task.last)
    return _heed(state, device, state.places.serves(device.name, part), what)


def made(state: State, device: Device, item: Item, task: TaskId, what: str) -> bool:
    """It may say that it did the task; if not, what came of that is noted as a stray."""
    placed = serves(state, device, item, task, what)
    if not placed:
        _note_stray(state, device, item, task.makes.cut)
    return placed


def handles(state: State, device: Device, item: Item, cut: int, what: str) -> bool:
    """It may speak of frames at the cut, which it takes or makes."""
    key, places = _key(state, item), state.places
    placed = places.takes(device.name, key, cut) or places.makes(device.name, key, cut)
    return _heed(state, device, placed, what)


def sends(state: State, sender: str, item: Item, cut: int) -> bool:
    """What the sender sends to that cut is the item's."""
    if cut == 0:
        return sender == ORCHESTRATOR
    return state.places.makes(sender, _key(state, item), cut)


def _note_stray(state: State, device: Device, item: Item, cut: int) -> None:
    if 0 < cut <= state.runs[item.run].end_cut:
        item.strays.add((cut, device.name))


def _key(state: State, item: Item) -> PlanKey:
    return state.runs[item.run].plan_key


def _heed(state: State, device: Device, placed: bool, what: str) -> bool:
    if not placed:
        state.counts[f"unplaced_{what}"] += 1
        device.unplaced = True
    return placed
