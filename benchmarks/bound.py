"""The best that a pipeline can do, from what its stages took: pure arithmetic.

A stage takes the larger of its compute and its transfer, t. Streaming, n items take at least the
first item's way through all stages and then the slowest stage once for each other item:
sum(t) + (n - 1) max(t). With a barrier after each stage they take n sum(t).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.happenings import Stage
from wire.errors import OperatorError


@dataclass(frozen=True, slots=True)
class Bound:
    """`stage_s` by stage, in order."""

    stage_s: tuple[float, ...]
    items: int

    @property
    def streaming_s(self) -> float:
        return sum(self.stage_s) + (self.items - 1) * max(self.stage_s)

    @property
    def barrier_s(self) -> float:
        return self.items * sum(self.stage_s)

    @property
    def saving(self) -> float:
        """The share of the barrier's time that streaming can save."""
        return 1 - self.streaming_s / self.barrier_s


def bound_of(items: Sequence[Sequence[Stage]], nbytes_per_s: float) -> Bound:
    """From the medians of the stages that the items went through, over a link of this rate in
    each direction: what a stage takes in and what it sends travel at once. `OperatorError` if
    not all items went through the same stages."""
    try:
        columns = list(zip(*items, strict=True))
    except ValueError:
        raise OperatorError("the plan changed while items were on their way") from None
    stage_s = (max(_compute_s(column), _nbytes(column) / nbytes_per_s) for column in columns)
    return Bound(tuple(stage_s), len(items))


def _compute_s(column: Sequence[Stage]) -> float:
    return median(stage.done.compute_s for stage in column)


def _nbytes(column: Sequence[Stage]) -> float:
    return median(max(stage.done.input_nbytes, stage.done.output_nbytes) for stage in column)
