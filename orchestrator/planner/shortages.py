"""Says what devices lack when a model does not fit them, and what can be done about it.

The sentences are for the person at the desk: which segment, how much is missing, and whom to give
more. Whether a plan exists is `partitioning`'s question.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.planner.needs import Needs, opset_of
from orchestrator.planner.offers import Offer, disk_need, hold_need, streams
from wire.errors import FleetTooSmall
from wire.manifest import Manifest, SegmentSpec
from wire.memory import resident_need
from wire.quantities import mebibytes


def homeless(manifest: Manifest, fleet: Sequence[Offer]) -> SegmentSpec | None:
    """The first segment that fits no device, not even alone."""
    needs = Needs(manifest)
    for segment in manifest.segments:
        at = segment.index
        if all(streams(needs, offer, at, at) is None for offer in fleet):
            return segment
    return None


def too_small(manifest: Manifest, fleet: Sequence[Offer], wanted: int | None) -> FleetTooSmall:
    """The error that says which segment lacks what, or that so few partitions are too few."""
    segment = homeless(manifest, fleet)
    if segment is not None:
        return FleetTooSmall(_lack_of(manifest, segment, fleet))
    memory = max(offer.budget_nbytes for offer in fleet)
    disk = max(offer.disk_nbytes for offer in fleet)
    return FleetTooSmall(
        f"model '{manifest.name}' ({mebibytes(resident_need(manifest.segments))} loaded) does not "
        f"fit the devices{_in_partitions(wanted)}: the largest has {mebibytes(memory)} of "
        f"memory and {mebibytes(disk)} of disk; {_way_out(wanted)}"
    )


def _in_partitions(wanted: int | None) -> str:
    if wanted is None:
        return ""
    return f" in {wanted} partition{'s' if wanted > 1 else ''}"


def _way_out(wanted: int | None) -> str:
    if wanted is None:
        return "let agents use more, or add devices"
    return "ask for more partitions, or leave the number to the planner"


def _lack_of(manifest: Manifest, segment: SegmentSpec, fleet: Sequence[Offer]) -> str:
    where = f"segment {segment.index} of model '{manifest.name}'"
    need = resident_need([segment])
    best = max(fleet, key=lambda offer: offer.budget_nbytes)
    if need > best.budget_nbytes:
        missing = need - best.budget_nbytes
        return (
            f"{where} needs {mebibytes(need)} of memory, and the largest budget is "
            f"{mebibytes(best.budget_nbytes)} on {best.device}: {mebibytes(missing)} are missing; "
            f"raise an agent's memory budget or add a larger device"
        )
    opset, highest = opset_of(segment), max(offer.max_opset for offer in fleet)
    if opset > highest:
        return (
            f"{where} uses opset {opset}, and the highest that a device takes is {highest}; "
            f"update ONNX Runtime on a device"
        )
    hold = hold_need(manifest, segment.index, segment.index)
    most = max(offer.hold_nbytes for offer in fleet)
    if hold > most:
        return (
            f"one item at {where} takes up to {mebibytes(hold)}, and no device holds more than "
            f"{mebibytes(most)}: {mebibytes(hold - most)} are missing; lower the model's bounds "
            f"with --max-shape, or let an agent hold more"
        )
    disk, room = disk_need([segment]), max(offer.disk_nbytes for offer in fleet)
    if disk > room:
        return (
            f"{where} takes {mebibytes(disk)} of disk, and the largest cache is "
            f"{mebibytes(room)}: {mebibytes(disk - room)} are missing; let an agent cache more"
        )
    return f"no single device has the memory, disk and ONNX Runtime that {where} needs"
