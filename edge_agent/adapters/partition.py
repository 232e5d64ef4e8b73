"""The one loaded partition: its segments in memory, or streamed through it one by one.

Refuses what would not fit the budget before it loads, by the formula the planner uses too, and
again when memory grew beyond it while loading. Which partition to load is the machine's decision.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from edge_agent.adapters.cache import BlobCache
from edge_agent.adapters.memory import rss_nbytes, trim
from edge_agent.adapters.onnx_runtime import Segment
from wire.errors import Malformed, OverBudget
from wire.memory import resident_need, streamed_need
from wire.messages.assignment import PartitionAssignment, SegmentRef

# RSS counts mapped pages that the system may take back, and the allocator's rounding.
MARGIN_NBYTES = 16 << 20
MARGIN_SHARE = 0.25


class Partition:
    """Loaded when made, or refused with nothing left in memory.

    `streamed`: at most one segment is loaded at a time, with its weights as mapped pages unless
    the run must be exact (prepacking changes last bits).
    """

    def __init__(
        self,
        assigned: PartitionAssignment,
        cache: BlobCache,
        *,
        streamed: bool,
        budget_nbytes: int,
        threads: int = 1,
    ) -> None:
        """Raises `OverBudget`, `LoadFailed`, `BlobMissing` or `BlobCorrupt`."""
        self.assigned = assigned
        self.streamed = streamed
        self._cache = cache
        self._threads = threads
        self._loaded: dict[int, Segment] = {}
        _check_need(assigned, streamed, budget_nbytes)
        for blob in assigned.blobs:  # all of them before the first is loaded
            cache.check(blob.digest)
        try:
            self._load_within(budget_nbytes)
        except BaseException:
            self.close()
            raise

    @property
    def segments(self) -> tuple[SegmentRef, ...]:
        return self.assigned.segments

    @property
    def loaded_count(self) -> int:
        """Segments in memory now."""
        return len(self._loaded)

    def _load_within(self, budget_nbytes: int) -> None:
        before = rss_nbytes()
        limit = budget_nbytes + max(MARGIN_NBYTES, int(budget_nbytes * MARGIN_SHARE))
        for ref in self.segments[:1] if self.streamed else self.segments:
            self._loaded[ref.index] = self._load(ref)
            if rss_nbytes() - before <= limit:
                continue
            trim()  # what loading left behind is not the partition's
            grown = rss_nbytes() - before
            if grown > limit:
                raise OverBudget(
                    f"loading {self.assigned.partition} took {mib(grown)} by segment {ref.index}, "
                    f"over the budget of {mib(budget_nbytes)}; assign fewer segments"
                )

    def _load(self, ref: SegmentRef) -> Segment:
        exact = self.assigned.partition.exact
        for blob in ref.blobs:  # again, since a streamed segment is loaded many times
            self._cache.check(blob.digest)
        return Segment(
            self._cache.path(ref.graph.digest),
            ref.inputs,
            ref.outputs,
            exact=exact,
            threads=self._threads,
            prepacked=exact or not self.streamed,
        )

    def run(self, values: dict[str, Any]) -> tuple[dict[str, Any], tuple[float, ...]]:
        """What the partition makes of the live set's OrtValues, and seconds per segment.

        `values` is emptied as it goes: an intermediate lives until its last user has run.
        Raises `ComputeFailed`, `LoadFailed` when streaming, or `Malformed` if a tensor is missing.
        """
        seconds: list[float] = []
        for position, ref in enumerate(self.segments):
            began_s = time.monotonic()
            self._run_one(position, values)
            self._drop_unneeded(position, values)
            seconds.append(time.monotonic() - began_s)
            if self.streamed and len(self.segments) > 1:
                self._give_back(ref)
        return values, tuple(seconds)

    def _run_one(self, position: int, values: dict[str, Any]) -> None:
        ref = self.segments[position]
        if ref.index not in self._loaded:
            self._loaded[ref.index] = self._load(ref)
        if self.streamed and position + 1 < len(self.segments):
            self._read_ahead(self.segments[position + 1])
        segment = self._loaded[ref.index]
        values |= segment.run(_feeds(segment, values))

    def _drop_unneeded(self, position: int, values: dict[str, Any]) -> None:
        later = {name for ref in self.segments[position + 1 :] for name in ref.inputs}
        for name in set(values) - later - set(self.assigned.emits):
            del values[name]

    def _give_back(self, ref: SegmentRef) -> None:
        self._loaded.pop(ref.index, None)
        trim()

    def _read_ahead(self, ref: SegmentRef) -> None:
        """Have the system read the next segment's weights while this one computes."""
        for path in _paths(self._cache, ref):
            with suppress(OSError, AttributeError):  # a hint: not every system takes it
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_WILLNEED)
                finally:
                    os.close(descriptor)

    def close(self) -> None:
        """Out of memory, and the memory given back."""
        self._loaded.clear()
        trim()


def _feeds(segment: Segment, values: dict[str, Any]) -> dict[str, Any]:
    missing = [name for name in segment.inputs if name not in values]
    if missing:
        raise Malformed(f"the frame lacks {missing[0]!r}, which the partition needs")
    return {name: values[name] for name in segment.inputs}


def _check_need(assigned: PartitionAssignment, streamed: bool, budget_nbytes: int) -> None:
    need = streamed_need(assigned.segments) if streamed else resident_need(assigned.segments)
    if need > budget_nbytes:
        raise OverBudget(
            f"{assigned.partition} needs {mib(need)} and the budget is {mib(budget_nbytes)}; "
            "assign fewer segments, or give the agent more with --memory"
        )


def _paths(cache: BlobCache, ref: SegmentRef) -> Iterator[Path]:
    return (cache.path(blob.digest) for blob in ref.blobs)


def mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):.1f} MiB"
