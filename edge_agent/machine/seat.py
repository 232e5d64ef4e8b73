"""The one place in memory where a partition is loaded, and what is under way there.

At most one partition sits here, from the instruction to load until the shell says that it is
gone (invariant 3), and at most one of loading, executing and evicting is under way.
"""

from __future__ import annotations

from typing import Literal

from edge_agent.machine.transitions import IllegalTransition
from wire.ids import PartitionId, TaskId
from wire.messages.assignment import PartitionAssignment

Work = Literal["loading", "executing", "evicting"]


class Seat:
    def __init__(self) -> None:
        self.occupant: PartitionAssignment | None = None
        self.streamed = False
        self.busy: Work | None = None
        self.task: TaskId | None = None
        self.since = 0.0
        self.waited_s = 0.0

    @property
    def partition(self) -> PartitionId | None:
        return self.occupant.partition if self.occupant else None

    def load(self, assigned: PartitionAssignment, streamed: bool, now: float) -> None:
        if self.occupant is not None or self.busy is not None:
            raise self._illegal(f"load {assigned.partition}")
        self.occupant, self.streamed, self.busy, self.since = assigned, streamed, "loading", now

    def evict(self, now: float) -> PartitionId:
        if self.occupant is None or self.busy is not None:
            raise self._illegal("evict")
        self.busy, self.since = "evicting", now
        return self.occupant.partition

    def execute(self, task: TaskId, waited_s: float, now: float) -> None:
        if self.occupant is None or self.busy is not None:
            raise self._illegal(f"execute {task}")
        self.task, self.busy, self.since, self.waited_s = task, "executing", now, waited_s

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
        return occupant

    def _finish(self, work: Work | None, partition: PartitionId) -> PartitionAssignment:
        if self.occupant is None or self.busy != work or self.occupant.partition != partition:
            raise self._illegal(f"{work} of {partition} ended")
        self.busy = None
        return self.occupant

    def _illegal(self, what: str) -> IllegalTransition:
        now = f"{self.busy or 'idle'} since {self.since:.3f}, task {self.task}"
        return IllegalTransition(f"seat: {what}, while {self.partition} is {now}")
