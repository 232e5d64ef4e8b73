"""What devices say of their partitions and generations, and what follows for plans."""

from __future__ import annotations

from orchestrator.machine.devices import liveness, replacing
from orchestrator.machine.plans import desired_state, places
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.events import (
    AssignmentSeen,
    ResidencySeen,
)
from orchestrator.machine.records.instructions import RaiseGeneration
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import GENERATIONS, State
from wire.ids import PartitionId
from wire.messages.residency import PartitionResidency

BELIEVED_MOST = GENERATIONS // 2  # only real starts come to where attempts begin anew
LIKELY = 1_000_000  # orchestrators' starts that we may have missed
CLAIMS = 3  # so often one device is believed that there was a higher generation
LIFE: dict[str, str] = {"waiting": "assigned", "evicting": "cached"}


def assignment_seen(state: State, event: AssignmentSeen) -> None:
    """It had these places. A higher generation was in use: ours has to rise above it. Only
    orchestrators write there, and who has stolen the login of one: within reason, therefore."""
    state.devices.met(event.device, state.now)
    places.note_former(state, event.device, event.partitions)
    if event.partitions:
        state.settling.wait_for(event.device, state.now)
    if is_likely(event.generation, state.generation):
        _outrank(state, event.generation)
    else:
        state.counts["unlikely_generation"] += 1


def outrank(state: State, device: Device, generation: int) -> None:
    """A device, proven to be there, obeys an orchestrator that was further than we are. It may
    also lie: so it is believed a few times, and within reason."""
    if generation <= max(state.generation, state.raising):
        return
    if not is_likely(generation, state.generation) or device.claims >= CLAIMS:
        state.counts["unlikely_generation"] += 1
        return
    device.claims += 1
    _outrank(state, generation)


def is_likely(generation: int, ours: int) -> bool:
    """Whether an orchestrator may have come so far. One that was believed whatever it is could
    leave no room for another."""
    return generation <= min(ours + LIKELY, BELIEVED_MOST)


def _outrank(state: State, generation: int) -> None:
    if generation > max(state.generation, state.raising):
        state.raising = generation
        state.emit(RaiseGeneration(generation))


def residency_seen(state: State, event: ResidencySeen) -> None:
    told = event.residency
    device = liveness.proven(state, event.device, told.connection, retained=event.retained)
    if device is None:
        state.devices.met(event.device, state.now).missed_connection = told.connection
        return
    if not event.retained:
        outrank(state, device, max(told.generation, told.least_generation))
    stamp = (told.generation, told.revision)
    if stamp < device.applied_stamp:
        state.counts["stale_residency"] += 1
        return
    device.applied_stamp = stamp
    take_residency(state, device, told.partitions)
    look_at_plans(state, device)
    desired_state.publish_to_orphan(state, device)


def take_residency(
    state: State, device: Device, partitions: tuple[PartitionResidency, ...]
) -> None:
    if device.reside({entry.partition: entry for entry in partitions}):
        device.progress_at = state.now
    for entry in partitions:
        for plan, placement in served(state, device, entry.partition):
            stamp = placement.stamps.get(device.name)
            if stamp is not None and device.applied_stamp >= stamp:
                _settle(state, plan, placement, device, entry)


def served(state: State, device: Device, part: PartitionId) -> list[tuple[Plan, Placement]]:
    """The placement of this partition, if the device was told to serve it."""
    plan = state.plans.get((part.model, part.exact))
    if plan is None:
        return []
    return [
        (plan, placement)
        for placement in plan.placements
        if placement.partition == part
        and (placement.device == device.name or device.name in placement.standins)
    ]


def _settle(
    state: State, plan: Plan, placement: Placement, device: Device, entry: PartitionResidency
) -> None:
    if entry.status == "failed":
        if entry.failure is None:
            return
        if placement.device == device.name:
            replacing.placement_failed(state, plan, placement, device, entry.failure)
        else:
            replacing.standin_failed(state, plan, placement, device, entry.failure)
    elif placement.device == device.name:
        placement.life.settle(LIFE.get(entry.status, entry.status), state.now, "as reported")


def look_at_plans(state: State, device: Device) -> None:
    """What it told may change when the rest of a plan that it serves is due."""
    for key in state.plans.due_on(device.name):
        state.agenda.look("assignment due", key)
