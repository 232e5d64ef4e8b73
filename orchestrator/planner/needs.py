"""What every range of a model's segments needs of a device, each asked once for all devices.

The formulas are `wire.memory`'s, which the agent asks too; here they are run on from each segment
to the next, so that all ranges of a model together cost little more than one question each.
Which device can give that much is `offers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from wire.manifest import Manifest, SegmentSpec
from wire.memory import (
    LOADING_FACTOR,
    RUNTIME_NBYTES,
    activation_need,
    mapped_nbytes,
    segment_need,
    session_need,
)


class Needs:
    """Tables of tables: `resident[first][last - first]` is what segments `first` to `last` need.
    Each inner one rises, so that the last range that a device takes is found by halving."""

    def __init__(self, manifest: Manifest) -> None:
        segments = manifest.segments
        self.count = len(segments)
        starts = range(self.count)
        self.resident = [_resident(segments[first:]) for first in starts]
        self.streamed = [_streamed(segments[first:]) for first in starts]
        self.disk = [_disk(segments[first:]) for first in starts]
        self.opsets = [list(accumulate(map(opset_of, segments[first:]), max)) for first in starts]
        self.cut_nbytes = [cut.bound_nbytes for cut in manifest.cuts]
        self.most_hold_nbytes = sum(sorted(self.cut_nbytes)[-2:])  # no range holds more
        self._weights = [0, *accumulate(segment.weight_nbytes for segment in segments)]

    def weight_nbytes(self, first: int, last: int) -> int:
        """Of the weights of segments `first` to `last`, each counted where it is used."""
        return self._weights[last + 1] - self._weights[first]

    def hold_nbytes(self, first: int, last: int) -> int:
        """Raw bytes of one item's frames at a hop: what comes in and what goes out."""
        return self.cut_nbytes[first] + self.cut_nbytes[last + 1]


def _resident(segments: Sequence[SegmentSpec]) -> list[int]:
    """`resident_need` of the first one, of the first two, and so on."""
    loaded = accumulate(map(segment_need, segments))
    loading = accumulate(((LOADING_FACTOR - 1) * mapped_nbytes(each) for each in segments), max)
    computing = accumulate(map(activation_need, segments), max)
    parts = zip(loaded, loading, computing, strict=True)
    return [RUNTIME_NBYTES + nbytes + max(more) for nbytes, *more in parts]


def _streamed(segments: Sequence[SegmentSpec]) -> list[int]:
    """`streamed_need` of the first one, of the first two, and so on."""
    sessions = accumulate(map(session_need, segments))
    largest = accumulate(map(_one_at_a_time, segments), max)
    return [RUNTIME_NBYTES + some + one for some, one in zip(sessions, largest, strict=True)]


def _one_at_a_time(segment: SegmentSpec) -> int:
    mapped = mapped_nbytes(segment)
    return max(LOADING_FACTOR * mapped, mapped + activation_need(segment))


def _disk(segments: Sequence[SegmentSpec]) -> list[int]:
    """Blobs that several segments use are on the disk once."""
    known: set[str] = set()
    total, totals = 0, []
    for segment in segments:
        for blob in segment.blobs:
            if blob.digest not in known:
                known.add(blob.digest)
                total += blob.nbytes
        totals.append(total)
    return totals


def opset_of(segment: SegmentSpec) -> int:
    """The version of ONNX's own operators that the segment is written in."""
    return segment.opsets.get("", segment.opsets.get("ai.onnx", 0))
