"""Names that two agents use: each connection of the one ends the other's, as a broker allows a name
one connection.

Each agent notes on its disk which boot it was, and names that at its next birth. One whose boot
before is not the one that was here last, but one from before that, is another agent with another
disk. What the one here was at is not why it ended.
"""

from __future__ import annotations

from orchestrator.machine.devices import deaths
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.state import State
from wire.messages.state import DeviceState

CONTESTED_S = 900.0  # a person is told for so long after it happened last
LOOK = ""


def born(state: State, device: Device, told: DeviceState) -> None:
    """Before the birth is taken in."""
    if not _is_another(device, told):
        return
    deaths.excuse(state, device)
    state.counts["taken_over"] += 1
    state.contested[device.name] = state.now + CONTESTED_S
    state.agenda.look("contested", LOOK)


def _is_another(device: Device, told: DeviceState) -> bool:
    before = told.last_work.boot if told.last_work is not None else ""
    return before != device.boot != told.boot and before in device.former_boots


def contested(state: State) -> tuple[str, ...]:
    """The names, at this time."""
    for name, until in list(state.contested.items()):
        if until <= state.now:
            del state.contested[name]
    return tuple(sorted(state.contested))
