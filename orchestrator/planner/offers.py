"""What one usable device brings, and whether it can serve a range of segments.

Facts and arithmetic only. How long a range takes there is `stages`; which range it gets is
decided in `partitioning` and `placement`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from wire.manifest import Manifest, SegmentSpec
from wire.memory import resident_need, streamed_need


@dataclass(frozen=True, slots=True, order=True)
class Offer:
    """Rates are multiply-adds and bytes per second. `rtt_s` is one small message's way to the
    broker and back, `hop_s` what unpacking an input and packing an output takes there. An agent
    streams what is over the budget that it told, `told_nbytes`, and nothing else; what it takes
    may be less, if it once refused as too much."""

    budget_nbytes: int
    hold_nbytes: int
    disk_nbytes: int
    max_opset: int
    cost_per_s: float
    link_nbytes_per_s: float
    device: str
    rtt_s: float = 0.0
    hop_s: float = 0.0
    told_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """Segments `first` to `last`, `last` included; `device` is whom the planner means to have
    it, None where it does not matter."""

    first: int
    last: int
    streamed: bool = False
    device: str | None = None


class Room:
    """Which ranges one device takes. Asks what they need as seldom as it can: with more segments
    no range needs less, except for the frames that it holds."""

    def __init__(self, manifest: Manifest, offer: Offer) -> None:
        self._manifest, self._offer = manifest, offer
        self._end = len(manifest.segments)

    def ranges(self, first: int) -> Iterator[tuple[int, bool]]:
        """Each possible last segment, and whether the range would be streamed."""
        offer, told = self._offer, self._offer.told_nbytes
        whole = self._until(first, lambda some: resident_need(some) > offer.budget_nbytes)
        streamed = self._until(first, lambda some: streamed_need(some) > offer.budget_nbytes)
        large = self._until(first, lambda some: resident_need(some) > told)
        able = self._until(first, lambda some: not _is_able(some, offer))
        for last in range(first, min(able, max(whole, streamed))):
            if hold_need(self._manifest, first, last) > offer.hold_nbytes:
                continue
            if last < whole:
                yield last, False
            elif large <= last < streamed:
                yield last, True

    def _until(self, first: int, beyond: Callable[[Sequence[SegmentSpec]], bool]) -> int:
        """The first last segment with which the range is beyond."""
        segments = self._manifest.segments
        lasts = range(first, self._end)
        at = bisect_left(lasts, True, key=lambda last: beyond(segments[first : last + 1]))
        return first + at


def fits(
    manifest: Manifest, first: int, last: int, offer: Offer, *, streamed: bool = False
) -> bool:
    """Whether the device can serve the range: memory, disk, frames held, and operators."""
    segments = manifest.segments[first : last + 1]
    resident = resident_need(segments)
    if streamed:
        roomy = streamed_need(segments) <= offer.budget_nbytes and resident > offer.told_nbytes
    else:
        roomy = resident <= offer.budget_nbytes
    held = hold_need(manifest, first, last) <= offer.hold_nbytes
    return roomy and held and _is_able(segments, offer)


def _is_able(segments: Sequence[SegmentSpec], offer: Offer) -> bool:
    """It has the disk and the operators."""
    opset = max(opset_of(segment) for segment in segments)
    return disk_need(segments) <= offer.disk_nbytes and opset <= offer.max_opset


def hold_need(manifest: Manifest, first: int, last: int) -> int:
    """Raw bytes of one item's frames at a hop: what comes in and what goes out."""
    return manifest.cuts[first].bound_nbytes + manifest.cuts[last + 1].bound_nbytes


def disk_need(segments: Sequence[SegmentSpec]) -> int:
    unique = {blob.digest: blob.nbytes for segment in segments for blob in segment.blobs}
    return sum(unique.values())


def opset_of(segment: SegmentSpec) -> int:
    return segment.opsets.get("", segment.opsets.get("ai.onnx", 0))
