"""When an output is no longer needed (rule 5): its dependent's own output has come on, or the
item has its outcome on disk. Until then its holder keeps it."""

from __future__ import annotations

from orchestrator.machine.items import Item
from orchestrator.machine.state import State


def received(state: State, item: Item, cut: int) -> None:
    """The activation at `cut` came to its dependent: outputs at earlier cuts may go."""
    for earlier in [at for at in item.outputs if at < cut]:
        for device in item.outputs.pop(earlier):
            state.outbox.release(device, item.run, earlier, item.index, state.now)
        item.parked.pop(earlier, None)


def held_late(state: State, item: Item, cut: int, device: str) -> bool:
    """An output that is reported although a later one has come on: release it at once."""
    if not any(
        at > cut and any(state.devices.reachable(holder) for holder in holders)
        for at, holders in item.inputs.items()
    ):
        return False
    state.outbox.release(device, item.run, cut, item.index, state.now)
    return True
