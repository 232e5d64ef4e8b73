"""How long loading, running and evicting may take before they count as never answered.

A limit is a floor, which covers what no estimate knows (a cold import, a full flash, loops), plus
many times what is expected: by bytes and by cost at the speed measured in this boot, or as long
as the same partition took at its slowest, whichever is longer. Too long a limit delays the restart
of a stuck agent; too short a one ends a slow device's work, so all numbers are generous. What
happens at a limit is decided in `execution.deadlines`.
"""

from __future__ import annotations

from edge_agent.machine.records.limits import AgentLimits
from edge_agent.machine.records.partitions import Partition
from wire.messages.assignment import PartitionAssignment

RECENT = 0.25  # how much the newest task counts in what one takes of late


class Pace:
    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self._cost = 0.0  # multiply-adds of all tasks in this boot, as the segments estimate them
        self._cost_s = 0.0  # seconds that they took

    def learn_task(
        self,
        record: Partition | None,
        occupant: PartitionAssignment,
        compute_s: float,
        all_s: float,
    ) -> None:
        """A task of `occupant` computed for so long, and took `all_s` with its codec."""
        self._cost += _cost_of(occupant)
        self._cost_s += compute_s
        if record is not None:
            record.slowest_task_s = max(record.slowest_task_s, compute_s)
            before_s = all_s if record.task_s is None else record.task_s
            record.task_s = before_s + (all_s - before_s) * RECENT

    def learn_load(self, record: Partition, load_s: float) -> None:
        record.slowest_load_s = max(record.slowest_load_s, load_s)

    @property
    def cost_per_s(self) -> float:
        """As measured, but at least `least_cost_per_s`: segments of no cost take time too."""
        limits = self._limits
        measured = self._cost / self._cost_s if self._cost_s > 0 else limits.cost_per_s
        return max(measured, limits.least_cost_per_s)

    def load_limit_s(self, record: Partition) -> float:
        """Fetched blobs are read, prepared once, and hashed again if the load fails."""
        limits = self._limits
        expected_s = record.total_nbytes / limits.load_nbytes_per_s
        return limits.load_floor_s + max(expected_s, limits.patience * record.slowest_load_s)

    def group_tasks(self, record: Partition) -> int:
        """How many of its tasks may be executed in one go. Of a streamed partition one: its weights
        come and go with each, and what was not measured may take long."""
        if record.streamed or record.task_s is None:
            return 1
        most = self._limits.group_tasks
        if record.task_s * most <= self._limits.group_s:
            return most
        return max(1, int(self._limits.group_s / record.task_s))

    def execute_limit_s(self, record: Partition, count: int) -> float:
        """Of so many tasks. The weights of a streamed partition may come from the disk again for
        every one."""
        limits = self._limits
        expected_s = max(_cost_of(record.assigned) / self.cost_per_s, record.slowest_task_s)
        streaming_s = record.total_nbytes / limits.load_nbytes_per_s if record.streamed else 0.0
        return limits.execute_floor_s + count * (limits.patience * expected_s + streaming_s)


def _cost_of(assigned: PartitionAssignment) -> float:
    return sum(segment.cost for segment in assigned.segments)
