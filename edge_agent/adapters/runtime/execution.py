"""What the executor's thread does with the partition in memory: load it, run tasks on it, evict it.

Each job is answered by one call that carries its number; a fault of ours is answered as a failure
too: the machine must never wait for an answer that does not come. ONNX Runtime is imported with the
first load, and this module, with all that it needs, just before. Knows neither thread nor queue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from bus.link import Link
from edge_agent.adapters.device.memory import collect_and_trim, rss_nbytes, trim
from edge_agent.adapters.runtime.deflating import Deflating
from edge_agent.adapters.runtime.executor_answers import Executed, ExecutorListener, Loaded, LoadJob
from edge_agent.adapters.runtime.frame_tensors import emit, open_frame, values_of
from edge_agent.adapters.runtime.loaded_partition import LoadedPartition
from edge_agent.adapters.runtime.onnx_runtime import import_runtime
from edge_agent.adapters.runtime.together import ItemShare, compute, in_turn
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.spool import Spool
from edge_agent.adapters.store.work_note import WorkNote
from wire.errors import (
    BlobCorrupt,
    BlobMissing,
    ComputeFailed,
    CrowdpipeError,
    LoadFailed,
    OverBudget,
)
from wire.ids import PartitionId, TaskId
from wire.messages.assignment import PartitionAssignment

SWAPPING_S = 60.0  # loads that follow each other sooner may be of partitions that take turns
RATED_NBYTES = 1 << 20  # a smaller load shows what any load costs, and no rate
TELL_S = 0.005  # for so long answers of a group may wait for each other

_log = logging.getLogger("crowdpipe.agent.executor")


class Execution:
    """`threads`: of ONNX Runtime within an operator."""

    def __init__(
        self,
        cache: BlobCache,
        spool: Spool,
        link: Link,
        listener: ExecutorListener,
        note: WorkNote,
        threads: int = 1,
    ) -> None:
        self._cache = cache
        self._spool = spool
        self._link = link
        self._deflating = Deflating()
        self._listener = listener
        self._note = note
        self._threads = threads
        self._partition: LoadedPartition | None = None
        self._loaded_at_s = float("-inf")
        self._cost_done, self._cost_s = 0.0, 0.0
        self._loaded_nbytes, self._loaded_s = 0, 0.0
        self.floor_nbytes = 0

    @property
    def cost_per_s(self) -> float | None:
        return self._cost_done / self._cost_s if self._cost_s else None

    @property
    def load_nbytes_per_s(self) -> float | None:
        return self._loaded_nbytes / self._loaded_s if self._loaded_s else None

    # --- loading ------------------------------------------------------------------------------

    def load(self, job: LoadJob) -> None:
        number, partition = job.number, job.partition
        try:
            loaded = self._load_counted(job)
        except CrowdpipeError as error:
            corrupt = self._rotten(job.assigned, error)
            self._listener.load_refused(number, partition, _refusal(error, corrupt), corrupt)
        except Exception as error:  # MemoryError, or a fault of ours: see above
            _log.exception("loading %s", partition)
            refusal = LoadFailed(
                f"loading failed: {error or type(error).__name__}; the agent's log says more"
            )
            self._listener.load_refused(number, partition, refusal, ())
        else:
            self._listener.partition_ready(number, partition, loaded)

    def _load_counted(self, job: LoadJob) -> Loaded:
        self._note.loading(job.partition)
        try:
            return self._load_now(job)
        finally:
            self._note.rest()
            made = self._cache.prepared.made_since()
            if made:
                self._listener.segments_prepared(made)

    def _load_now(self, job: LoadJob) -> Loaded:
        if self._partition is not None:
            raise LoadFailed(f"{self._partition.assigned.partition} is still in memory")
        began_s = time.monotonic()
        import_runtime()
        if not self.floor_nbytes:
            trim()
            self.floor_nbytes = rss_nbytes()
        before = rss_nbytes()
        self._partition = LoadedPartition(
            job.assigned,
            self._cache,
            streamed=job.streamed,
            budget_nbytes=job.budget_nbytes,
            threads=self._threads,
            prepare_nbytes=job.prepare_nbytes,
            takes_turns=began_s - self._loaded_at_s < SWAPPING_S,
        )
        self._loaded_at_s = began_s
        self._cache.touch(tuple(blob.digest for blob in job.assigned.blobs))
        prepare_s = self._partition.prepare_s
        loaded = Loaded(
            streamed=job.streamed,
            load_s=time.monotonic() - began_s - prepare_s,
            rss_before_nbytes=before,
            rss_nbytes=rss_nbytes(),
            prepare_s=prepare_s,
        )
        nbytes = sum(blob.nbytes for blob in job.assigned.blobs)
        if not job.streamed and nbytes >= RATED_NBYTES:
            self._loaded_nbytes += nbytes
            self._loaded_s += loaded.load_s
        return loaded

    def _rotten(self, assigned: PartitionAssignment, error: CrowdpipeError) -> tuple[str, ...]:
        """After a failed load every blob of the partition is hashed; rotten and missing ones are
        named. What never touched a blob needs no hashing."""
        if isinstance(error, OverBudget):
            return ()
        rotten = []
        for blob in assigned.blobs:
            try:
                self._cache.verify(blob.digest)
            except (BlobCorrupt, BlobMissing):
                rotten.append(blob.digest)
        return tuple(rotten)

    def unload(self, number: int, partition: PartitionId) -> None:
        began_s = time.monotonic()
        if self._partition is not None and self._partition.assigned.partition == partition:
            self._drop()
        evict_s = time.monotonic() - began_s
        self._listener.partition_gone(number, partition, evict_s, rss_nbytes())

    def _drop(self) -> None:
        if self._partition is not None:
            self._partition.close()
        self._partition = None
        collect_and_trim()

    # --- executing ----------------------------------------------------------------------------

    def execute(
        self, number: int, assigned: PartitionAssignment, group: Sequence[tuple[TaskId, str]]
    ) -> None:
        """Answers are looked for together, so that the main thread does not take this one's turns
        between short tasks, and what they made can travel together. Each is there at once: if a
        later task of the group never ends, the limit blames that one."""
        told_s, left = time.monotonic(), len(group)
        for task, run in self._steps(assigned, group):
            answer = self._answer_to(number, task, run)
            left -= 1
            fatal = self._partition is None
            if fatal or not left:
                self._note.rest()
            answer()
            if fatal or not left or time.monotonic() - told_s >= TELL_S:
                self._listener.told()
                told_s = time.monotonic()
            if fatal:
                return
        self._settle(assigned.partition)

    def _steps(
        self, assigned: PartitionAssignment, group: Sequence[tuple[TaskId, str]]
    ) -> Iterator[tuple[TaskId, Callable[[], Executed]]]:
        """Each task in order with what is left to do for it; those that fit have one call."""
        sources = [partial(self._spool.get, task.needs, "input", sender) for task, sender in group]
        shares = in_turn(assigned, sources, lambda some: compute(self._resident(assigned), some))
        for task, sender in group:
            self._note.running(task)
            share = next(shares)
            if share is None:
                yield task, partial(self._execute_now, task, assigned, sender)
            else:
                yield task, partial(self._emitted, task, assigned, share)

    def _answer_to(
        self, number: int, task: TaskId, run: Callable[[], Executed]
    ) -> Callable[[], None]:
        """Run it, and say how to tell what came of it."""
        try:
            executed = run()
        except CrowdpipeError as error:
            # A segment that cannot be loaded again (streaming) is the partition's fault.
            fatal = isinstance(error, (LoadFailed, BlobCorrupt))
            return self._failure(number, task, error, fatal)
        except MemoryError:
            error = ComputeFailed("the device ran out of memory")
            return self._failure(number, task, error, fatal=True)
        except Exception as error:  # a fault of ours: see above
            _log.exception("executing %s", task)
            reason = f"executing failed: {error or type(error).__name__}"
            return self._failure(number, task, ComputeFailed(reason), fatal=False)
        return partial(self._listener.task_executed, number, task, executed)

    def _settle(self, partition: PartitionId) -> None:
        """After the answer, so that what was made is on its way. To join segments loads them anew:
        if that ends the process, the note says whose load it was. A partition that is lost by it
        fails its next task."""
        if self._partition is None or not self._partition.may_settle:
            return
        self._note.loading(partition)
        try:
            self._partition.settle()
        except Exception:
            _log.exception("joining the segments in memory")
            self._drop()
        finally:
            self._note.rest()

    def _failure(
        self, number: int, task: TaskId, error: CrowdpipeError, fatal: bool
    ) -> Callable[[], None]:
        if fatal:
            self._drop()
        return partial(self._listener.execution_failed, number, task, error, fatal)

    def _resident(self, assigned: PartitionAssignment) -> LoadedPartition:
        partition = self._partition
        if partition is None or partition.assigned.partition != assigned.partition:
            raise LoadFailed(f"{assigned.partition} is not in memory")
        return partition

    def _execute_now(self, task: TaskId, assigned: PartitionAssignment, sender: str) -> Executed:
        partition = self._resident(assigned)
        began_s = time.monotonic()
        received = self._spool.get(task.needs, "input", sender)
        frame = open_frame(received, assigned.accepts_nbytes)
        values = values_of(frame, partition.wanted)
        decoded_s = time.monotonic()
        made, segment_s = partition.run(values)
        compute_s = time.monotonic() - decoded_s
        item = ItemShare(frame, made, began_s, decoded_s - began_s, compute_s, segment_s)
        return self._emitted(task, assigned, item)

    def _emitted(self, task: TaskId, assigned: PartitionAssignment, item: ItemShare) -> Executed:
        computed_s = time.monotonic()
        link = self._link.nbytes_per_s
        emitted = emit(item.frame, item.made, task, assigned, link, self._deflating)
        self._spool.put(task.makes, "output", emitted.data)
        self._cost_done += sum(segment.cost for segment in assigned.segments)
        self._cost_s += item.compute_s
        return Executed(
            emitted=emitted.header,
            began_s=item.began_s,
            decode_s=item.decode_s,
            compute_s=item.compute_s,
            encode_s=time.monotonic() - computed_s,
            segment_s=item.segment_s,
        )


def _refusal(error: CrowdpipeError, corrupt: tuple[str, ...]) -> CrowdpipeError:
    """A load that failed on rotten bytes is told as that, whatever ONNX Runtime made of them."""
    if corrupt and not isinstance(error, (BlobCorrupt, BlobMissing)):
        return BlobCorrupt(f"{len(corrupt)} cached blobs were altered on disk: {error}")
    return error
