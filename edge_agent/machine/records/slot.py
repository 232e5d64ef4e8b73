"""The one slot in memory where a partition is loaded, and what is under way there.

At most one partition is here, from the instruction to load until the shell says that it is gone
(invariant 3), and at most one of loading, executing and evicting is under way. Each has a number
and a limit in time. Short tasks are executed several in one go, one after another, and each is
answered by itself. What was abandoned at its limit may still use the memory, so the slot stays
busy for good, and answers that carry its number are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edge_agent.machine.records.cache import Cache
from wire.ids import ActivationId, PartitionId, TaskId
from wire.lifecycle import IllegalTransition
from wire.messages.assignment import PartitionAssignment

Work = Literal["loading", "executing", "evicting"]


@dataclass(frozen=True, slots=True)
class Running:
    """A task that was begun and not answered: whose copy of its input it takes, and when that
    came."""

    task: TaskId
    sender: str
    arrived_at: float


class Slot:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.occupant: PartitionAssignment | None = None  # its blobs are pinned in the cache
        self.streamed = False  # of the occupant
        self.busy: Work | None = None  # None: an answer is not waited for; needs an occupant
        self.running: dict[TaskId, Running] = {}  # in their order, unless they were abandoned
        self.cancelled_nbytes: dict[TaskId, int] = {}  # inputs that stay until their task ends
        self.tasks = 0  # begun since the occupant was loaded
        self.number = 0  # of the last work that began, or above it if that was abandoned
        self.since = 0.0  # when that work began
        self.deadline: float | None = None  # set while busy, unless stuck
        self.stuck = False  # the work was abandoned; it stays busy for good
        self.lacking_room_since: float | None = None  # a task waits for room for its output

    @property
    def partition(self) -> PartitionId | None:
        return self.occupant.partition if self.occupant else None

    @property
    def task(self) -> TaskId | None:
        """The one that is being computed, unless it was abandoned."""
        return next(iter(self.running), None)

    def maker_of(self, output: ActivationId) -> TaskId | None:
        """The running task that makes it."""
        return next((task for task in self.running if task.makes == output), None)

    def cancel(self, needs: ActivationId, nbytes: int) -> None:
        """The running task that needs it is not wanted any more; its input stays until it ends."""
        for task in self.running:
            if task.needs == needs:
                self.cancelled_nbytes[task] = nbytes

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

    def execute(self, group: Sequence[Running], now: float, limit_s: float) -> int:
        if self.occupant is None or self.busy is not None or not group:
            raise self._illegal(f"execute {', '.join(str(each.task) for each in group)}")
        self.running = {each.task: each for each in group}
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

    def abandon(self) -> list[Running]:
        """At the limit: answers with this number are ignored. The tasks that ran; the first of them
        was being computed."""
        self.number += 1
        self.deadline, self.stuck = None, True
        self.cancelled_nbytes = {}
        tasks, self.running = list(self.running.values()), {}
        return tasks

    def loaded(self, partition: PartitionId) -> PartitionAssignment:
        return self._finish("loading", partition)

    def executed(self, task: TaskId) -> tuple[PartitionAssignment, Running]:
        """It ended, in whichever way; with the last of its group the slot is free again."""
        if self.task != task or self.occupant is None:
            raise self._illegal(f"finish {task}")
        running = self.running.pop(task)
        self.cancelled_nbytes.pop(task, None)
        if self.running:
            self.tasks += 1
        else:
            self._finish("executing", self.occupant.partition)
        return self.occupant, running

    def give_back(self) -> list[Running]:
        """Those of the group that were not reached and never will be."""
        self.cancelled_nbytes = {}
        rest, self.running = list(self.running.values()), {}
        if rest and self.occupant is not None:
            self._finish("executing", self.occupant.partition)
        return rest

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
