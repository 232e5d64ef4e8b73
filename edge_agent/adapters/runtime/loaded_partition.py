"""The one loaded partition: a session for each segment, its weights in memory or streamed.

Resident with memory to spare, and there to stay, it becomes one session once its first tasks have
told what each segment takes. Measured, that takes 3 to 10 % less processor time: what crosses from
one session to the next is memory of its own that leaves the processor's caches.

Resident, all weights stay in memory. Streamed, each segment's weights come in as it computes and
are given back behind it; the sessions stay. Refuses what would not fit the budget before it loads,
by the formula the planner uses too, and again when memory grew beyond it while loading. Which
partition to load, and how, is the machine's decision.

Can be used without an agent: a cache with the blobs, and an assignment, are all it needs.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from edge_agent.adapters.device.memory import (
    collect_and_trim,
    keep_large_blocks_apart,
    keep_room_for_frames,
    reused_blocks,
    rss_nbytes,
    trim,
    trim_own_heap,
)
from edge_agent.adapters.runtime.joining import Group, SegmentTimes, groups_of
from edge_agent.adapters.runtime.loaded_segment import LoadedSegment
from edge_agent.adapters.runtime.onnx_runtime import shrink_arena
from edge_agent.adapters.runtime.outside_table import integers_of, of_input
from edge_agent.adapters.runtime.segment_loader import SegmentLoader
from edge_agent.adapters.runtime.worker_pool import WorkerPool
from edge_agent.adapters.store.cache import BlobCache
from wire.errors import ComputeFailed, LoadFailed, OverBudget
from wire.memory import hurried_need, mapped_nbytes, resident_need, streamed_need
from wire.messages.assignment import PartitionAssignment, SegmentRef
from wire.quantities import mebibytes

# RSS counts mapped pages that the system may take back, and the allocator's rounding.
MARGIN_NBYTES = 16 << 20
MARGIN_SHARE = 0.25
SETTLED_S = 10.0  # in memory for so long, it does not take turns with others
LOADERS = 2  # segments loaded at once; `hurried_need` counts on it

_log = logging.getLogger("crowdpipe.agent.executor")


class LoadedPartition:
    """Loaded when made, or refused with nothing left in memory."""

    def __init__(
        self,
        assigned: PartitionAssignment,
        cache: BlobCache,
        *,
        streamed: bool,
        budget_nbytes: int,
        threads: int = 1,
        prepare_nbytes: int | None = None,
        takes_turns: bool = False,
    ) -> None:
        """`prepare_nbytes` bounds what may be prepared on disk; None says as much as it takes.
        `takes_turns`: another may be loaded in its place soon, so that it has to stay for a while
        before more is done for it.

        Raises `OverBudget`, `LoadFailed`, `BlobMissing` or `BlobCorrupt`.
        """
        self.assigned = assigned
        self.streamed = streamed
        self.wanted = frozenset(name for ref in assigned.segments for name in ref.inputs)
        self._loaded: dict[int, LoadedSegment] = {}
        self._groups: tuple[Group, ...] = tuple((ref,) for ref in self.segments)
        self._chain: list[tuple[LoadedSegment, frozenset[str]]] = []
        self._times = SegmentTimes()
        self._loader = SegmentLoader(
            cache,
            exact=assigned.partition.exact,
            streamed=streamed,
            threads=threads,
            room_nbytes=prepare_nbytes,
        )
        _check_need(assigned, streamed, budget_nbytes)
        hurried = not streamed and hurried_need(assigned.segments) <= budget_nbytes
        for blob in assigned.blobs:  # all of them before the first is loaded
            cache.check(blob.digest)
        pool = WorkerPool(self._helpers(hurried))
        try:
            with reused_blocks() if hurried else nullcontext():
                self._load_within(budget_nbytes, hurried, pool)
            self._chain = self._in_order([self._loaded[ref.index] for ref in self.segments])
        except BaseException:
            self.close()
            raise
        finally:
            pool.close(trim_own_heap)
        self._may_settle = hurried
        self._settles_at_s = time.monotonic() + SETTLED_S if takes_turns else 0.0
        if self._may_settle:
            keep_room_for_frames()

    @property
    def segments(self) -> tuple[SegmentRef, ...]:
        return self.assigned.segments

    @property
    def prepare_s(self) -> float:
        """Seconds of loading that went into preparing segments for this and every later load."""
        return self._loader.prepare_s

    def _load_within(self, budget_nbytes: int, hurried: bool, pool: WorkerPool) -> None:
        before = rss_nbytes()
        limit = budget_nbytes + max(MARGIN_NBYTES, int(budget_nbytes * MARGIN_SHARE))
        # The largest first, while few sessions take memory besides.
        refs = sorted(self.segments, key=mapped_nbytes, reverse=True)

        def load(ref: SegmentRef) -> None:
            segment = self._loaded[ref.index] = self._loader.load(ref)
            if self.streamed:
                segment.give_back_weights()
            if not hurried:
                trim()  # loading leaves buffers behind: some 100 MB over 20 segments (measured)
            grown = rss_nbytes() - before
            if grown > limit:
                raise OverBudget(
                    f"loading {self.assigned.partition} took {mebibytes(grown)} "
                    f"by segment {ref.index}, over the budget of {mebibytes(budget_nbytes)}; "
                    "assign fewer segments"
                )

        pool.run(load, refs)

    def _helpers(self, hurried: bool) -> int:
        """What is prepared is packed anew to be compared, which two cores do in half the time."""
        if not hurried or not self._loader.has_prepared(self.segments):
            return 0
        return min(LOADERS, os.cpu_count() or 1) - 1

    def run(self, values: dict[str, Any]) -> tuple[dict[str, Any], tuple[float, ...]]:
        """What the partition makes of the live set's OrtValues, and seconds per segment.

        `values` is emptied as it goes: an intermediate lives until its last user has run.
        Raises `ComputeFailed`, `InvalidInput` if that is for a value of one of the model's inputs,
        or `Malformed` if a tensor is missing.
        """
        inputs = integers_of(values) if self.assigned.partition.first == 0 else {}
        try:
            return self._run(values)
        except ComputeFailed as error:
            raise of_input(error, inputs) from None

    def _run(self, values: dict[str, Any]) -> tuple[dict[str, Any], tuple[float, ...]]:
        seconds: list[float] = []
        for segment, kept in self._chain:
            began_s = time.monotonic()
            try:
                values |= segment.run(values)
            finally:
                if self.streamed:
                    segment.give_back_weights()
            for name in values.keys() - kept:
                del values[name]
            seconds.append(time.monotonic() - began_s)
        if self.streamed:
            shrink_arena()
        return values, self._by_segment(seconds)

    def _by_segment(self, seconds: list[float]) -> tuple[float, ...]:
        if len(self._groups) < len(self.segments):
            return self._times.shared_out(tuple(map(len, self._groups)), seconds)
        self._times.took(seconds)
        return tuple(seconds)

    def _in_order(
        self, loaded: Sequence[LoadedSegment]
    ) -> list[tuple[LoadedSegment, frozenset[str]]]:
        """Each of what is loaded for `_groups`, and which values are still needed after it."""
        return list(zip(loaded, map(self._needed_after, self._groups), strict=True))

    def _needed_after(self, group: Group) -> frozenset[str]:
        end = group[-1].index - self.assigned.partition.first + 1
        later = {name for ref in self.segments[end:] for name in ref.inputs}
        return frozenset(later | set(self.assigned.emits))

    # --- as one session -----------------------------------------------------------------------

    @property
    def may_settle(self) -> bool:
        """Enough tasks have told what each segment takes, it is here to stay, and it was not tried
        yet."""
        known = self._may_settle and self._times.known
        return known and time.monotonic() >= self._settles_at_s

    def settle(self) -> bool:
        """Between tasks. Once enough of them have told what each segment takes, the segments are
        loaded anew as one session, which takes as long as loading did; True if so. What cannot be
        joined stays as it was. Raises what loading does, with nothing left in memory."""
        if not self.may_settle:
            return False
        self._may_settle = False
        groups = groups_of(self.segments)
        computing = [ref for ref in self.segments if self._loaded[ref.index].computes]
        if len(groups) == len(self.segments) or not self._loader.has_prepared(computing):
            return False
        try:
            return self._joined(groups)
        except BaseException:
            self.close()
            raise
        finally:
            trim()  # loading leaves buffers behind

    def _joined(self, groups: tuple[Group, ...]) -> bool:
        self._drop_sessions()  # before: both would have every page of the weights in memory
        try:
            loaded = [
                self._keep(group, self._loader.load_joined(group, self._needed_after(group)))
                for group in groups
            ]
        except LoadFailed as error:
            _log.warning("%s stays in several sessions: %s", self.assigned.partition, error)
            self._drop_sessions()
            loaded = [self._keep((ref,), self._loader.load(ref)) for ref in self.segments]
            groups = self._groups
        self._groups = groups
        self._chain = self._in_order(loaded)
        return len(groups) < len(self.segments)

    def _keep(self, group: Group, loaded: LoadedSegment) -> LoadedSegment:
        self._loaded[group[0].index] = loaded
        return loaded

    def _drop_sessions(self) -> None:
        self._chain.clear()
        for segment in self._loaded.values():
            segment.close()
        self._loaded.clear()
        trim()

    def close(self) -> None:
        """Out of memory, and the memory given back."""
        self._drop_sessions()
        shrink_arena()
        keep_large_blocks_apart()
        collect_and_trim()


def _check_need(assigned: PartitionAssignment, streamed: bool, budget_nbytes: int) -> None:
    need = streamed_need(assigned.segments) if streamed else resident_need(assigned.segments)
    if need > budget_nbytes:
        raise OverBudget(
            f"{assigned.partition} needs {mebibytes(need)} and the budget is "
            f"{mebibytes(budget_nbytes)}; assign fewer segments, or give the agent more with "
            "--memory"
        )
