"""Asks devices what each segment took, now and then, and keeps what they say.

A device tells it for its last task, when asked. Asked for the second task of a partition and then
ever more rarely: the first pages weights in, and a few are enough for the middle one. What was
measured goes to the journal, so that plans after a restart begin with it.
"""

from __future__ import annotations

from orchestrator.machine.records.device import Device
from orchestrator.machine.records.instructions import StoreTimes
from orchestrator.machine.records.state import State
from orchestrator.machine.runs import models
from wire.ids import PartitionId
from wire.messages.commands import Profile
from wire.messages.events import Profiled

ASKED_AT = frozenset({2, 3, 5, 8, 12, 16, 24, 32})  # tasks of a partition on a device
EVERY = 32  # … and from then on


def task_done(state: State, device: Device, partition: PartitionId) -> None:
    count = device.tasks[partition] = device.tasks.get(partition, 0) + 1
    if count in ASKED_AT or count % EVERY == 0:
        state.commands.post(device.name, Profile(partition))


def profiled(state: State, device: Device, told: Profiled) -> None:
    manifest = state.manifests.get(told.partition.model)
    if manifest is None or told.partition.last >= len(manifest.segments):
        return
    entry = device.residency.get(told.partition)
    streamed = entry is not None and entry.streamed
    state.estimates.learn_profile(
        device.name, manifest, told.partition, told.segment_s, streamed=streamed
    )
    times = state.estimates.unkept(device.name, told.partition)
    if times:
        state.emit(StoreTimes(times))
        models.publish(state, manifest)
