"""Which ranges of consecutive segments become partitions, and whom they are meant for.

A pure function of manifest, fleet and work: of all ways to give each device at most one range,
the one by which a batch is through soonest (`stages` says how long that is). A device that would
make the batch slower is left out. A range larger than a device's memory is streamed there. Only
if there is no such way do devices serve several ranges each, one loaded after another. Which
device a range really goes to is placement, by what each has loaded and cached.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

from orchestrator.planner.needs import Needs, opset_of
from orchestrator.planner.offers import (
    Offer,
    SegmentRange,
    disk_need,
    fits,
    hold_need,
    mebibytes,
)
from orchestrator.planner.search import Search
from orchestrator.planner.sharing import shared_ranges
from orchestrator.planner.stages import Stage, Work, batch_s, shared, stage_of
from wire.errors import FleetTooSmall, InvalidInput, NoDevice
from wire.manifest import Manifest, SegmentSpec
from wire.memory import resident_need


def partition(
    manifest: Manifest,
    fleet: Sequence[Offer],
    wanted: int | None = None,
    work: Work | None = None,
) -> tuple[SegmentRange, ...]:
    """Contiguous ranges that cover the model, each of which fits a device.

    `wanted` None: as many as make the batch fastest. Raises `NoDevice`, `FleetTooSmall` (what is
    missing, and where) or `InvalidInput` (a `wanted` that cannot be).
    """
    if not fleet:
        raise NoDevice("no device is online: start an agent with `crowdpipe agent`")
    check_wanted(manifest, wanted)
    work = work or Work.estimated(manifest)
    own = None
    if wanted is None or wanted <= len(fleet):
        own = Search(manifest, work, fleet, wanted).best()
    ranges = own or shared_ranges(manifest, work, fleet, wanted)
    if ranges is None:
        raise too_small(manifest, fleet, wanted)
    return ranges


def require(manifest: Manifest, fleet: Sequence[Offer], wanted: int | None) -> None:
    """Raises what `partition` would, sooner where nobody asked for a number."""
    if not fleet or wanted is not None:
        partition(manifest, fleet, wanted)
        return
    for index in range(len(manifest.segments)):
        if not any(fits(manifest, index, index, offer) for offer in fleet):
            raise too_small(manifest, fleet, None)


def check_wanted(manifest: Manifest, wanted: int | None) -> None:
    limit = len(manifest.segments)
    if wanted is not None and not 1 <= wanted <= limit:
        raise InvalidInput(
            f"{wanted} partitions are not possible: model '{manifest.name}' has {limit} segments, "
            f"so ask for 1 to {limit}"
        )


def estimated_s(
    manifest: Manifest, fleet: Sequence[Offer], ranges: Sequence[SegmentRange], work: Work
) -> float:
    """Seconds of a batch with each range on its device; infinite when one is not there, or does
    not take it."""
    offers = {offer.device: offer for offer in fleet}
    on: dict[str, list[SegmentRange]] = defaultdict(list)
    for each in ranges:
        offer = offers.get(each.device or "")
        if offer is None or not _takes(manifest, each, offer):
            return math.inf
        on[offer.device].append(each)
    stages = (_together(manifest, work, offers[name], mine) for name, mine in on.items())
    return batch_s(stages, work.items)


def _takes(manifest: Manifest, each: SegmentRange, offer: Offer) -> bool:
    """Whole or streamed."""
    return any(
        fits(manifest, each.first, each.last, offer, streamed=streamed)
        for streamed in (False, True)
    )


def _together(manifest: Manifest, work: Work, offer: Offer, mine: Sequence[SegmentRange]) -> Stage:
    weights = [_weights(manifest, each) for each in mine]
    stages = [
        stage_of(
            work,
            offer,
            each.first,
            each.last,
            None if fits(manifest, each.first, each.last, offer) else nbytes,
        )
        for each, nbytes in zip(mine, weights, strict=True)
    ]
    return shared(stages, weights, [each.last - each.first + 1 for each in mine])


def _weights(manifest: Manifest, each: SegmentRange) -> int:
    return sum(segment.weight_nbytes for segment in manifest.segments[each.first : each.last + 1])


def too_small(manifest: Manifest, fleet: Sequence[Offer], wanted: int | None) -> FleetTooSmall:
    """The error that says which segment lacks what, or that so few partitions are too few."""
    for segment in manifest.segments:
        alone = segment.index
        if not any(fits(manifest, alone, alone, offer) for offer in fleet):
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
