"""What a device holds, all of it: replaces what was believed of its frames, cache and ranges."""

from __future__ import annotations

from orchestrator.machine.devices import standing
from orchestrator.machine.devices.item_news import find, note
from orchestrator.machine.devices.residencies import outrank, take_residency
from orchestrator.machine.items import recovery, releases
from orchestrator.machine.plans import desired_state, starving
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.state import State
from wire.ids import ActivationId
from wire.messages.events import (
    Inventory,
)


def take_inventory(state: State, device: Device, told: Inventory) -> None:
    """Replaces all that was believed of this device's frames, cache and partitions."""
    outrank(state, device, told.generation)
    device.cached = frozenset()
    device.cache(told.cached)
    if (told.generation, told.revision) >= device.applied_stamp:
        device.applied_stamp = (told.generation, told.revision)
        take_residency(state, device, told.partitions)
        desired_state.publish_to_orphan(state, device)
    device.runs(told.running)
    # What runs and is not among its inputs was cancelled while it ran: nothing comes of it.
    _forget_unheard(state, device, set(told.inputs), set(told.outputs))
    for at in told.inputs:
        _input_held(state, device, at)
    for at in told.outputs:
        _output_held(state, device, at)
    _publish_unheard(state, device)
    if device.doubtful:
        device.doubtful = False
        recovery.doubt(state, device.name)
    recovery.reconcile(state, device.name)
    for plan, item in state.in_flight_on(device.name):
        recovery.resend_all(state, plan, item)
    starving.settle(state, device.name)


def _forget_unheard(
    state: State, device: Device, inputs: set[ActivationId], outputs: set[ActivationId]
) -> None:
    """Frames that we believed there and that are not. A device may hold an activation as the
    output that it made, and lack it as the input that it sent to itself."""
    for item in state.involved.of(device.name):
        item.drop_strays(device.name)
    for _, item in state.in_flight_on(device.name):
        for table, held in ((item.inputs, inputs), (item.outputs, outputs)):
            for cut in [cut for cut, holders in table.items() if device.name in holders]:
                if ActivationId(item.run, item.index, cut) not in held:
                    item.forget_frame(table, device.name, cut)


def _input_held(state: State, device: Device, at: ActivationId) -> None:
    item = find(state, device, at.run, at.item)
    if item is not None and standing.takes(state, device, item, at.cut, "input"):
        if device.name not in item.inputs.get(at.cut, ()):
            state.runs[item.run].close_cuts()
        item.receive(at.cut, device.name)
        note(state, item, "received", at.cut, device)


def _output_held(state: State, device: Device, at: ActivationId) -> None:
    item = find(state, device, at.run, at.item)
    if item is None or not standing.makes(state, device, item, at.cut, "output"):
        return
    if not releases.held_late(state, item, at.cut, device.name):
        item.make(at.cut, device.name)
        note(state, item, "done", at.cut, device)


def _publish_unheard(state: State, device: Device) -> None:
    """It does not know its newest assignment: say it again."""
    published = state.published.get(device.name)
    if published is not None and device.applied_stamp < published.stamp:
        desired_state.publish_again(state, device.name)
