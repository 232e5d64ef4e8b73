"""The one slot in memory where a partition is loaded, and what is under way there.

At most one partition is here, from the instruction to load until the shell says that it is gone
(invariant 3), and at most one of loading, executing and evicting is under way. Each has a number
and a limit in time. What was abandoned at its limit may still use the memory, so the slot stays
busy for good, and answers that carry its number are ignored.
"""

from __future__ import annotations

from typing import Literal

from edge_agent.machine.records.cache import Cache
from wire.ids import PartitionId, TaskId
from wire.lifecycle import IllegalTransition
from wire.messages.assignment import PartitionAssignment

Work = Literal["loading", "executing", "evicting"]


class Slot:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.occupant: PartitionAssignment | None = None  # its blobs are pinned in the cache
        self.streamed = False  # of the occupant
        self.busy: Work | None = None  # None: an answer is not waited for; needs an occupant
        self.task: TaskId | None = None  # set while a task runs that was not abandoned
        self.sender = ""  # of the last task's input
        self.tasks = 0  # begun since the occupant was loaded
        self.number = 0  # of the last work that began, or above it if that was abandoned
        self.since = 0.0  # when that work began
        self.deadline: float | None = None  # set while busy, unless stuck
        self.stuck = False  # the work was abandoned; it stays busy for good
        self.lacking_room_since: float | None = None  # a task waits for room for its output
        self.waited_s = 0.0  # how long the input of the last task waited to be run

    @property
    def partition(self) -> PartitionId | None:
        return self.occupant.partition if self.occupant else None

    def load(
        self, assigned: PartitionAssignment, streamed: bool, now: float, limit_s: float
    ) -> int:
        """The number of this work, as of the two below."""
        if self.occupant is not None or self.busy is not None:
            raise self._illegal(f"load {assigned.partition}")
        self.occupant, self.streamed, self.tasks = assigned, streamed, 0
        self._cache.pin(blob.digest for blob in assigned.blobs)
        return self._begin("loading", now, limit_s)

    def evict(self, now: float, limit_s: float) -> int:
        if self.occupant is None or self.busy is not None:
            raise self._illegal("evict")
        return self._begin("evicting", now, limit_s)

    def execute(
        self, task: TaskId, sender: str, waited_s: float, now: float, limit_s: float
    ) -> int:
        if self.occupant is None or self.busy is not None:
            raise self._illegal(f"execute {task}")
        self.task, self.sender, self.waited_s = task, sender, waited_s
        self.tasks += 1
        return self._begin("executing", now, limit_s)

    def _begin(self, work: Work, now: float, limit_s: float) -> int:
        self.busy, self.since, self.deadline = work, now, now + limit_s
        self.lacking_room_since = None
        self.number += 1
        return self.number

    def extend(self, seconds: float) -> None:
        """The process was suspended for so long: move the limit."""
        if self.deadline is not None:
            self.deadline += seconds

    def abandon(self) -> TaskId | None:
        """At the limit: answers with this number are ignored. The task that ran, if any."""
        self.number += 1
        self.deadline, self.stuck = None, True
        task, self.task = self.task, None
        return task

    def loaded(self, partition: PartitionId) -> PartitionAssignment:
        return self._finish("loading", partition)

    def executed(self, task: TaskId) -> PartitionAssignment:
        if self.task != task:
            raise self._illegal(f"finish {task}")
        assert self.occupant is not None
        occupant = self._finish("executing", self.occupant.partition)
        self.task = None
        return occupant

    def vacated(self, partition: PartitionId, work: Work | None) -> PartitionAssignment:
        """It left memory as the end of `work`: evicted, not loaded, or ruined by a task."""
        occupant = self._finish(work, partition)
        self.occupant = None
        self._cache.unpin(blob.digest for blob in occupant.blobs)
        return occupant

    def _finish(self, work: Work | None, partition: PartitionId) -> PartitionAssignment:
        if self.occupant is None or self.busy != work or self.occupant.partition != partition:
            raise self._illegal(f"{work} of {partition} ended")
        self.busy = self.deadline = None
        return self.occupant

    def _illegal(self, what: str) -> IllegalTransition:
        return IllegalTransition(f"memory slot: {what}, while it is {self}")

    def __str__(self) -> str:
        work = f"{self.busy} since {self.since:.3f}" if self.busy else "idle"
        return f"{work} with partition {self.partition}, task {self.task}, number {self.number}"
