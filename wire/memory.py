"""What a partition needs in memory: one formula for the planner and for the agent.

The planner must not assign what the agent will refuse, so both ask here. An agent that has
measured more corrects it by refusing with `over_budget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

SESSION_NBYTES = 1 << 20  # measured: an ONNX Runtime session without weights takes 0.5 to 1 MB
GRAPH_FACTOR = 3  # protobuf, parsed graph and kernels, against the file


class Weighed(Protocol):
    """What of a segment the formula looks at."""

    @property
    def graph_nbytes(self) -> int: ...
    @property
    def weight_nbytes(self) -> int: ...
    @property
    def peak_activation_nbytes(self) -> int: ...


def segment_need(segment: Weighed) -> int:
    """Bytes of one loaded segment, without activations."""
    return SESSION_NBYTES + GRAPH_FACTOR * segment.graph_nbytes + segment.weight_nbytes


def resident_need(segments: Sequence[Weighed]) -> int:
    """Bytes when all segments stay loaded: their sum and the largest activation peak."""
    activations = max((segment.peak_activation_nbytes for segment in segments), default=0)
    return sum(map(segment_need, segments)) + activations


def streamed_need(segments: Sequence[Weighed]) -> int:
    """Bytes when segments are loaded, run and given back one after another."""
    return max(
        (segment_need(segment) + segment.peak_activation_nbytes for segment in segments), default=0
    )
