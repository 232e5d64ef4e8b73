"""What a partition needs in memory and on disk: one formula for the planner and for the agent.

The planner must not assign what the agent will refuse, so both ask here. An agent that has
measured more corrects it by refusing with `over_budget`.

A device keeps a session for every segment of its partition, or, which takes no more, one for
several. Weights are mapped from a packed copy
that it made once (`prepared`): all of them stay in memory when the partition is resident; when it
is streamed, only those of the segment that computes. Tables that are read by row are never in
memory. While a segment is loaded, and when its copy is made, ONNX Runtime has its weights three
times: as they came, packed anew, and the packed copy to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

RUNTIME_NBYTES = 3 << 20  # measured: what ONNX Runtime takes for its first session and run
SESSION_NBYTES = 1 << 19  # measured: 0.3 to 0.6 MB for a session without weights
GRAPH_FACTOR = 3  # protobuf, parsed graph and kernels, against the file
LOADING_FACTOR = 3  # see above
ACTIVATION_FACTOR = 1.5  # measured: 1.3 to 1.4, what the arena takes against what lives at once
PREPARED_FACTOR = 2  # on disk: the weights as they were, and packed


class SegmentSizes(Protocol):
    """What of a segment the formula looks at; `row_nbytes` of its weights are read by row."""

    @property
    def graph_nbytes(self) -> int: ...
    @property
    def weight_nbytes(self) -> int: ...
    @property
    def row_nbytes(self) -> int: ...
    @property
    def peak_activation_nbytes(self) -> int: ...


def session_need(segment: SegmentSizes) -> int:
    """Bytes of one loaded segment, without weights and activations."""
    return SESSION_NBYTES + GRAPH_FACTOR * segment.graph_nbytes


def mapped_nbytes(segment: SegmentSizes) -> int:
    """Bytes of weights that are in memory while the segment computes."""
    return max(0, segment.weight_nbytes - segment.row_nbytes)


def segment_need(segment: SegmentSizes) -> int:
    """Bytes of one loaded segment with its weights, without activations."""
    return session_need(segment) + mapped_nbytes(segment)


def activation_need(segment: SegmentSizes) -> int:
    return int(ACTIVATION_FACTOR * segment.peak_activation_nbytes)


def resident_need(segments: Sequence[SegmentSizes]) -> int:
    """Bytes when all weights stay in memory: what remains after loading, and the more of what
    loading the largest segment takes besides, and the largest activations."""
    loading = (LOADING_FACTOR - 1) * max(map(mapped_nbytes, segments), default=0)
    activations = max(map(activation_need, segments), default=0)
    return RUNTIME_NBYTES + sum(map(segment_need, segments)) + max(loading, activations)


def hurried_need(segments: Sequence[SegmentSizes]) -> int:
    """As `resident_need`, with memory to spare while loading, which then takes less time: freed
    blocks are used again, and two segments are loaded at once."""
    return resident_need(segments) + LOADING_FACTOR * max(map(mapped_nbytes, segments), default=0)


def streamed_need(segments: Sequence[SegmentSizes]) -> int:
    """Bytes when weights are given back behind the segment that computes."""
    largest = max(
        (
            max(LOADING_FACTOR * mapped_nbytes(s), mapped_nbytes(s) + activation_need(s))
            for s in segments
        ),
        default=0,
    )
    return RUNTIME_NBYTES + sum(map(session_need, segments)) + largest


def prepared_need(segment: SegmentSizes) -> int:
    """Bytes on disk of what a device prepares of a segment, beside its blobs."""
    return GRAPH_FACTOR * segment.graph_nbytes + PREPARED_FACTOR * mapped_nbytes(segment)
