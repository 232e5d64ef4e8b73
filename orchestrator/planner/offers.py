"""What one usable device brings, and whether it can serve a range of segments.

Facts and arithmetic only. How long a range takes there is `stages`; which range it gets is
decided in `partitioning` and `ranking`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from orchestrator.planner.needs import Needs, opset_of
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


class Fleet(Sequence[Offer]):
    """Offers that are also found by their device's name."""

    def __init__(self, offers: Iterable[Offer]) -> None:
        self._offers = tuple(offers)
        self._by_name = {offer.device: offer for offer in self._offers}

    @staticmethod
    def of(offers: Sequence[Offer]) -> Fleet:
        """As it is, if it is a fleet already: nothing is gone through again."""
        return offers if isinstance(offers, Fleet) else Fleet(offers)

    def named(self, device: str | None) -> Offer | None:
        return self._by_name.get(device or "")

    @overload
    def __getitem__(self, at: int) -> Offer: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Offer, ...]: ...
    def __getitem__(self, at: int | slice) -> Offer | tuple[Offer, ...]:
        return self._offers[at]

    def __len__(self) -> int:
        return len(self._offers)


def streams(needs: Needs, offer: Offer, first: int, last: int) -> bool | None:
    """Whether the device would stream the range; None if it does not take it."""
    count, resident = last - first, needs.resident[first][last - first]
    if (
        needs.disk[first][count] > offer.disk_nbytes
        or needs.opsets[first][count] > offer.max_opset
        or needs.hold_nbytes(first, last) > offer.hold_nbytes
    ):
        return None
    if resident <= offer.budget_nbytes:
        return False
    streamable = needs.streamed[first][count] <= offer.budget_nbytes
    return True if streamable and resident > offer.told_nbytes else None


class Room:
    """Which ranges one device takes. With more segments no range needs less, except for the
    frames that it holds: so the last one is found by halving."""

    def __init__(self, needs: Needs, offer: Offer) -> None:
        self._needs, self._offer = needs, offer
        self._holds_all = needs.most_hold_nbytes <= offer.hold_nbytes

    def ranges(self, first: int) -> Iterator[tuple[int, bool]]:
        """Each possible last segment, and whether the range would be streamed."""
        needs, offer = self._needs, self._offer
        resident = needs.resident[first]
        whole = bisect_right(resident, offer.budget_nbytes)
        large = bisect_right(resident, offer.told_nbytes)
        streamed = bisect_right(needs.streamed[first], offer.budget_nbytes)
        able = min(
            bisect_right(needs.disk[first], offer.disk_nbytes),
            bisect_right(needs.opsets[first], offer.max_opset),
        )
        for last in range(first, first + min(able, max(whole, streamed))):
            must_stream = last - first >= whole
            if must_stream and not large <= last - first < streamed:
                continue
            if self._holds_all or needs.hold_nbytes(first, last) <= offer.hold_nbytes:
                yield last, must_stream


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
