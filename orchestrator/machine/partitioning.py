"""Which ranges of consecutive segments become partitions: a pure function of manifest and fleet.

Minimises the slowest stage (its share of the compute plus the time its input takes on the link)
by dynamic programming over the cuts, exactly for devices of few kinds. Devices that resemble each
other are merged into kinds first when there are too many, each kind as weak as its weakest.
Says nothing about which device gets which range: that is placement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from wire.errors import FleetTooSmall, InvalidInput, NoDevice
from wire.manifest import Manifest, SegmentSpec
from wire.memory import resident_need, streamed_need

STATES_LIMIT = 3_000_000  # about three seconds of Python at the very most
STREAMED_FACTOR = 1.5  # measured: 1.0 to 1.7 times the time of a resident partition


@dataclass(frozen=True, slots=True, order=True)
class Offer:
    """What one usable device brings. Rates are multiply-adds and bytes per second."""

    budget_nbytes: int
    hold_nbytes: int
    disk_nbytes: int
    max_opset: int
    cost_per_s: float
    link_nbytes_per_s: float
    device: str


@dataclass(frozen=True, slots=True)
class Range:
    """Segments `first` to `last`, `last` included."""

    first: int
    last: int
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class _Kind:
    """`count` devices that are alike; None when each may serve several ranges."""

    offer: Offer
    count: int | None


_State = tuple[int, tuple[int, ...]]  # the cut reached, and the devices used of each kind
_Score = tuple[float, float]  # the slowest stage, then the sum of all


@dataclass(frozen=True, slots=True)
class _Path:
    score: _Score
    ranges: tuple[Range, ...]


def partition(
    manifest: Manifest, fleet: Sequence[Offer], wanted: int | None = None
) -> tuple[Range, ...]:
    """Contiguous ranges that cover the model, each of which fits a device.

    `wanted` None: one per device, as far as the segments go and memory allows; more than devices
    only when there is no other way. Raises `NoDevice`, `FleetTooSmall` (what is missing, and
    where) or `InvalidInput` (a `wanted` that cannot be).
    """
    if not fleet:
        raise NoDevice("no device is online: start an agent with `crowdpipe agent`")
    check_wanted(manifest, wanted)
    if wanted is None:
        return _chosen(manifest, fleet)
    return _asked(manifest, fleet, wanted)


def check_wanted(manifest: Manifest, wanted: int | None) -> None:
    limit = len(manifest.segments)
    if wanted is not None and not 1 <= wanted <= limit:
        raise InvalidInput(
            f"{wanted} partitions are not possible: model '{manifest.name}' has {limit} segments, "
            f"so ask for 1 to {limit}"
        )


def _chosen(manifest: Manifest, fleet: Sequence[Offer]) -> tuple[Range, ...]:
    limit = len(manifest.segments)
    own = _search(manifest, fleet, min(len(fleet), limit), shared=False, streamed=False)
    if own:
        return own[max(own)].ranges
    several = _search(manifest, fleet, limit, shared=True, streamed=False)
    if several:
        return several[min(several)].ranges
    raise too_small(manifest, fleet, None)


def _asked(manifest: Manifest, fleet: Sequence[Offer], wanted: int) -> tuple[Range, ...]:
    for shared, streamed in ((False, False), (False, True), (True, False), (True, True)):
        if wanted <= len(fleet) or shared:
            found = _search(manifest, fleet, wanted, shared=shared, streamed=streamed)
            if wanted in found:
                return found[wanted].ranges
    raise too_small(manifest, fleet, wanted)


def bottleneck_s(manifest: Manifest, fleet: Sequence[Offer], ranges: Sequence[Range]) -> float:
    """Seconds of the slowest stage with each range on the device of its size class that the best
    order finds; infinite when the ranges do not fit the fleet one per device."""
    kinds = _kinds(fleet, False, len(ranges))
    table = _Table(manifest, kinds, any(each.streamed for each in ranges))
    layer: dict[_State, _Path] = {(0, (0,) * len(kinds)): _Path((0.0, 0.0), ())}
    for wanted in ranges:
        layer = _grow(table, layer, only=wanted.last)
    scores = [path.score[0] for (cut, _), path in layer.items() if cut == table.end]
    return min(scores, default=math.inf)


def fits(
    manifest: Manifest, first: int, last: int, offer: Offer, *, streamed: bool = False
) -> bool:
    """Whether the device can serve the range: memory, disk, frames held, and operators."""
    segments = manifest.segments[first : last + 1]
    need = streamed_need(segments) if streamed else resident_need(segments)
    return (
        need <= offer.budget_nbytes
        and disk_need(segments) <= offer.disk_nbytes
        and hold_need(manifest, first, last) <= offer.hold_nbytes
        and max(opset_of(segment) for segment in segments) <= offer.max_opset
    )


def hold_need(manifest: Manifest, first: int, last: int) -> int:
    """Raw bytes of one item's frames at a hop: what comes in and what goes out."""
    return manifest.cuts[first].bound_nbytes + manifest.cuts[last + 1].bound_nbytes


def disk_need(segments: Sequence[SegmentSpec]) -> int:
    unique = {blob.digest: blob.nbytes for segment in segments for blob in segment.blobs}
    return sum(unique.values())


def opset_of(segment: SegmentSpec) -> int:
    return segment.opsets.get("", segment.opsets.get("ai.onnx", 0))


def _kinds(fleet: Sequence[Offer], shared: bool, segments: int) -> list[_Kind]:
    """The fleet as few kinds: alike devices together, then the closest budgets merged."""
    groups: dict[tuple[float, ...], list[Offer]] = {}
    for offer in sorted(fleet):
        groups.setdefault(_likeness(offer), []).append(offer)
    merged = list(groups.values())
    limit = max(1, STATES_LIMIT // max(1, segments * segments))
    while not shared and len(merged) > 1 and _states(merged) * len(merged) > limit:
        gaps = [
            merged[i + 1][0].budget_nbytes - merged[i][0].budget_nbytes
            for i in range(len(merged) - 1)
        ]
        at = gaps.index(min(gaps))
        merged[at : at + 2] = [merged[at] + merged[at + 1]]
    return [_Kind(_weakest(group), None if shared else len(group)) for group in merged]


def _states(groups: Sequence[Sequence[Offer]]) -> int:
    return math.prod(len(group) + 1 for group in groups)


def _likeness(offer: Offer) -> tuple[float, ...]:
    """Sizes exactly, rates to about 10 %: measured speeds of equal devices differ by noise."""
    return (
        offer.budget_nbytes,
        offer.hold_nbytes,
        offer.disk_nbytes,
        offer.max_opset,
        round(math.log(max(offer.cost_per_s, 1e-9), 1.1)),
        round(math.log(max(offer.link_nbytes_per_s, 1e-9), 1.1)),
    )


def _weakest(group: Sequence[Offer]) -> Offer:
    return Offer(
        min(offer.budget_nbytes for offer in group),
        min(offer.hold_nbytes for offer in group),
        min(offer.disk_nbytes for offer in group),
        min(offer.max_opset for offer in group),
        min(offer.cost_per_s for offer in group),
        min(offer.link_nbytes_per_s for offer in group),
        group[0].device,
    )


class _Table:
    """Which ranges fit which kind, and the seconds they take there; worked out once."""

    def __init__(self, manifest: Manifest, kinds: Sequence[_Kind], streamed: bool) -> None:
        self.manifest, self.kinds, self.streamed = manifest, kinds, streamed
        self.end = len(manifest.segments)
        self._costs = [0.0, *accumulate(segment.cost for segment in manifest.segments)]
        self._ranges = {
            (first, kind): tuple(self._from(first, kind))
            for first in range(self.end)
            for kind in range(len(kinds))
        }

    def ranges(self, first: int, kind: int) -> tuple[tuple[Range, float], ...]:
        return self._ranges[first, kind]

    def _from(self, first: int, kind: int) -> Iterator[tuple[Range, float]]:
        offer = self.kinds[kind].offer
        for last in range(first, self.end):
            if fits(self.manifest, first, last, offer):
                yield Range(first, last), self._stage_s(first, last, offer)
            elif self.streamed and fits(self.manifest, first, last, offer, streamed=True):
                seconds = STREAMED_FACTOR * self._stage_s(first, last, offer)
                yield Range(first, last, streamed=True), seconds

    def _stage_s(self, first: int, last: int, offer: Offer) -> float:
        compute_s = (self._costs[last + 1] - self._costs[first]) / max(offer.cost_per_s, 1e-9)
        link = max(offer.link_nbytes_per_s, 1e-9)
        return compute_s + self.manifest.cuts[first].bound_nbytes / link


def _search(
    manifest: Manifest, fleet: Sequence[Offer], most: int, *, shared: bool, streamed: bool
) -> dict[int, _Path]:
    """The best path for each number of ranges up to `most` that has one."""
    kinds = _kinds(fleet, shared, len(manifest.segments))
    table = _Table(manifest, kinds, streamed)
    layer: dict[_State, _Path] = {(0, (0,) * len(kinds)): _Path((0.0, 0.0), ())}
    found: dict[int, _Path] = {}
    for number in range(1, most + 1):
        layer = _grow(table, layer)
        whole = [path for (cut, _), path in layer.items() if cut == table.end]
        if whole:
            found[number] = min(whole, key=lambda path: path.score)
    return found


def _grow(
    table: _Table, layer: dict[_State, _Path], only: int | None = None
) -> dict[_State, _Path]:
    """One more range on every path; of paths to the same state the best stays."""
    grown: dict[_State, _Path] = {}
    for (cut, used), path in layer.items():
        for kind in _free_kinds(table.kinds, used) if cut < table.end else ():
            after = _use(table.kinds, used, kind)
            for each, seconds in table.ranges(cut, kind):
                state = (each.last + 1, after)
                score = (max(path.score[0], seconds), path.score[1] + seconds)
                if only in (None, each.last) and (state not in grown or score < grown[state].score):
                    grown[state] = _Path(score, (*path.ranges, each))
    return grown


def _free_kinds(kinds: Sequence[_Kind], used: tuple[int, ...]) -> Iterator[int]:
    for index, kind in enumerate(kinds):
        if kind.count is None or used[index] < kind.count:
            yield index


def _use(kinds: Sequence[_Kind], used: tuple[int, ...], kind: int) -> tuple[int, ...]:
    if kinds[kind].count is None:
        return used
    return tuple(count + (index == kind) for index, count in enumerate(used))


def too_small(manifest: Manifest, fleet: Sequence[Offer], wanted: int | None) -> FleetTooSmall:
    """The error that says which segment lacks what, or that so few partitions are too few."""
    for segment in manifest.segments:
        alone = segment.index
        if not any(fits(manifest, alone, alone, offer) for offer in fleet):
            return FleetTooSmall(_lack_of(manifest, segment, fleet))
    memory = max(offer.budget_nbytes for offer in fleet)
    disk = max(offer.disk_nbytes for offer in fleet)
    return FleetTooSmall(
        f"model '{manifest.name}' ({megabytes(resident_need(manifest.segments))} loaded) does not "
        f"fit {len(fleet)} devices in {wanted} partitions: the largest has {megabytes(memory)} of "
        f"memory and {megabytes(disk)} of disk; ask for more partitions, or leave the number to "
        f"the planner"
    )


def _lack_of(manifest: Manifest, segment: SegmentSpec, fleet: Sequence[Offer]) -> str:
    where = f"segment {segment.index} of model '{manifest.name}'"
    need = resident_need([segment])
    best = max(fleet, key=lambda offer: offer.budget_nbytes)
    if need > best.budget_nbytes:
        missing = need - best.budget_nbytes
        return (
            f"{where} needs {megabytes(need)} of memory, and the largest budget is "
            f"{megabytes(best.budget_nbytes)} on {best.device}: {megabytes(missing)} are missing; "
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
            f"one item at {where} takes up to {megabytes(hold)}, and no device holds more than "
            f"{megabytes(most)}: {megabytes(hold - most)} are missing; lower the model's bounds "
            f"with --max-shape, or let an agent hold more"
        )
    disk, room = disk_need([segment]), max(offer.disk_nbytes for offer in fleet)
    if disk > room:
        return (
            f"{where} takes {megabytes(disk)} of disk, and the largest cache is "
            f"{megabytes(room)}: {megabytes(disk - room)} are missing; let an agent cache more"
        )
    return f"no single device has the memory, disk and ONNX Runtime that {where} needs"


def megabytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB"
