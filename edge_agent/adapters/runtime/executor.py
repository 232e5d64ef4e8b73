"""The one thread that loads, runs and evicts: memory is never used from two places at once.

Takes jobs in order. The machine asks for one at a time, so the queue holds one job, and a look at a
cached blob now and then. How a job is done is `execution`'s affair, which comes with the first: an
agent that never had a partition has not imported what runs one.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from bus.link import Link
from bus.vital_thread import VitalThread
from edge_agent.adapters.runtime.executor_answers import ExecutorListener, LoadJob
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.spool import Spool
from edge_agent.adapters.store.work_note import WorkNote
from wire.errors import BlobCorrupt, BlobMissing
from wire.ids import PartitionId, TaskId
from wire.messages.assignment import PartitionAssignment

if TYPE_CHECKING:
    from edge_agent.adapters.runtime.execution import Execution

UNVERIFIED_S = 86_400.0  # a cached blob is hashed again in idle time after a day

_log = logging.getLogger("crowdpipe.agent.executor")


class Executor:
    """`load`, `unload` and `execute` return at once."""

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
        self._listener = listener
        self._first = partial(_execution, cache, spool, link, listener, note, threads)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = VitalThread("executor", self._work, listener.ended)
        self._execution: Execution | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def floor_nbytes(self) -> int:
        """RSS with numpy and ONNX Runtime imported and nothing loaded; 0 before the first load."""
        return self._execution.floor_nbytes if self._execution else 0

    @property
    def cost_per_s(self) -> float | None:
        """Multiply-adds a second, over everything computed so far."""
        return self._execution.cost_per_s if self._execution else None

    @property
    def load_nbytes_per_s(self) -> float | None:
        """Bytes of segments loaded a second, over all loads so far that were of any size."""
        return self._execution.load_nbytes_per_s if self._execution else None

    def load(self, job: LoadJob) -> None:
        self._jobs.put(lambda: self._begun().load(job))

    def unload(self, number: int, partition: PartitionId) -> None:
        self._jobs.put(lambda: self._begun().unload(number, partition))

    def execute(
        self, number: int, assigned: PartitionAssignment, group: Sequence[tuple[TaskId, str]]
    ) -> None:
        """Run each task on its sender's copy of its input, one after another, or in one call
        where they fit. One that ruins the partition is the last that is answered."""
        self._jobs.put(lambda: self._begun().execute(number, assigned, group))

    def verify_in_idle_time(self) -> None:
        """Hash the blob that was verified longest ago, if that is a day, and so what was prepared;
        `blob_rotten` if it is not what its name says, or not what was written."""
        self._jobs.put(self._verify)

    def close(self, limit_s: float) -> bool:
        """Finish what is under way; False if that takes longer than `limit_s`."""
        self._jobs.put(None)
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def _begun(self) -> Execution:
        if self._execution is None:
            self._execution = self._first()
        return self._execution

    def _verify(self) -> None:
        try:
            rotten = self._rotten_blob() or self._cache.prepared.verify_oldest(UNVERIFIED_S)
        except OSError as error:
            _log.warning("cannot verify what is cached: %s", error)
            return
        if rotten is not None:
            self._listener.blob_rotten(rotten)

    def _rotten_blob(self) -> str | None:
        digest = self._cache.longest_unverified(UNVERIFIED_S)
        if digest is not None:
            try:
                self._cache.verify(digest)
            except (BlobCorrupt, BlobMissing):
                return digest
        return None


def _execution(
    cache: BlobCache,
    spool: Spool,
    link: Link,
    listener: ExecutorListener,
    note: WorkNote,
    threads: int,
) -> Execution:
    from edge_agent.adapters.runtime.execution import Execution

    return Execution(cache, spool, link, listener, note, threads)
