"""The desired state of each device, written out and published when it changed.

A device's revision rises with each change; all are published again with a new generation and
after a reconnect. A route without a chosen dependent is empty: the device keeps its outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from orchestrator.machine.plans import places
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.instructions import PublishAssignment
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.plan import Plan
from orchestrator.machine.records.state import State
from wire.ids import PartitionId
from wire.manifest import Manifest
from wire.messages.assignment import (
    Assignment,
    BatchTerms,
    PartitionAssignment,
    Route,
    SegmentRef,
)
from wire.topics import ORCHESTRATOR

NEVER = float("inf")


def publish_changed(state: State, device: str) -> float:
    """Publish what differs from what was published last, if we may tell it anything."""
    known = device in state.published or any(_placements_on(state, device))
    if state.connection is not None and known:
        _publish(state, device)
    return NEVER


def publish_all(state: State) -> None:
    """After a reconnect or with a new generation: the same again."""
    look_at_all(state)
    for device, assignment in state.published.items():
        if assignment.generation == state.generation:
            state.emit(PublishAssignment(device, assignment))


def look_at_all(state: State) -> None:
    """Each assignment may have changed, as with another generation."""
    served = (device for plan in state.plans.values() for device in plan.devices())
    for device in sorted({*state.published, *served}):
        state.agenda.look("assignment", device)


def publish_again(state: State, device: str) -> None:
    assignment = state.published.get(device)
    if assignment is not None and state.connection is not None:
        state.emit(PublishAssignment(device, assignment))


def publish_to_orphan(state: State, device: Device) -> None:
    """It serves what nobody stands for: what this generation told it before it was forgotten, or a
    model that is not there any more. What else an orchestrator before us gave it stays warm."""
    if device.name in state.published or state.connection is None or device.foreign:
        return
    if device.applied_stamp[0] == state.generation:
        known = state.revisions.get(device.name, 0)
        state.revisions[device.name] = max(known, device.applied_stamp[1])
        _publish(state, device.name)
    elif state.now >= state.models_by and _serves_unknown(state, device):
        _publish(state, device.name)


def _serves_unknown(state: State, device: Device) -> bool:
    return any(part.model not in state.manifests for part in device.residency)


def _publish(state: State, device: str) -> None:
    before = state.published.get(device)
    revision = 1 + (before.revision if before is not None else state.revisions.get(device, 0))
    wanted = Assignment(
        generation=state.generation,
        revision=revision,
        store_base=state.store_base,
        partitions=tuple(partitions_on(state, device)),
        routes=tuple(routes_on(state, device)),
        limits=state.options.limits,
    )
    places.note(state, device, (each.partition for each in wanted.partitions))
    if before is not None and replace(wanted, revision=before.revision) == before:
        return
    state.published[device] = wanted
    _stamp(state, device, wanted)
    state.emit(PublishAssignment(device, wanted))


def _stamp(state: State, device: str, assignment: Assignment) -> None:
    """Remember which assignment listed a placement first: older answers do not speak of it."""
    for _, placement in _placements_on(state, device):
        before = placement.stamps.get(device)
        if before is None or before[0] != assignment.generation:
            placement.stamps[device] = assignment.stamp


def _placements_on(state: State, device: str) -> Iterator[tuple[Plan, Placement]]:
    for plan in state.plans.on(device):
        for placement in plan.placements:
            if placement.device == device or device in placement.standins:
                yield plan, placement


def partitions_on(state: State, device: str) -> Iterator[PartitionAssignment]:
    for plan, placement in _placements_on(state, device):
        cuts, part = plan.manifest.cuts, placement.partition
        tier = placement.choice.tier if placement.choice and placement.device == device else 3
        yield PartitionAssignment(
            partition=part,
            model_name=plan.manifest.name,
            tier=tier,
            segments=tuple(map(SegmentRef.of, placement.segments)),
            accepts_nbytes=plan.manifest.frame_bound_nbytes(part.first),
            emits=cuts[part.cut].names,
            emits_nbytes=cuts[part.cut].bound_nbytes,
            senders=places.senders_to(state, plan, part),
            batch=_batch_terms(plan.manifest, part),
        )


def _batch_terms(manifest: Manifest, part: PartitionId) -> BatchTerms | None:
    ends = {part.first, part.cut}
    if part.exact or manifest.batch_limit < 2 or not ends <= set(manifest.batching.cuts):
        return None
    return BatchTerms(manifest.batch_limit, manifest.shared_inputs())


def routes_on(state: State, device: str) -> Iterator[Route]:
    for plan, placement in _placements_on(state, device):
        cut = placement.partition.cut
        after = plan.stage_of(cut)
        if cut == plan.end:
            dependents: tuple[str, ...] = (ORCHESTRATOR,)
        else:
            dependents = (after.device,) if after is not None and after.device else ()
        yield Route(plan.key[0], plan.key[1], cut, dependents)
