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


class Pace:
    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self._cost = 0.0  # multiply-adds of all tasks in this boot, as the segments estimate them
        self._cost_s = 0.0  # seconds that they took

    def learn_task(self, record: Partition | None, occupant: PartitionAssignment, s: float) -> None:
        """A task of `occupant` computed for `s` seconds."""
        self._cost += _cost_of(occupant)
        self._cost_s += s
        if record is not None:
            record.slowest_task_s = max(record.slowest_task_s, s)

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

    def execute_limit_s(self, record: Partition) -> float:
        """The weights of a streamed partition may come from the disk again for every task."""
        limits = self._limits
        expected_s = max(_cost_of(record.assigned) / self.cost_per_s, record.slowest_task_s)
        streaming_s = record.total_nbytes / limits.load_nbytes_per_s if record.streamed else 0.0
        return limits.execute_floor_s + limits.patience * expected_s + streaming_s


def _cost_of(assigned: PartitionAssignment) -> float:
    return sum(segment.cost for segment in assigned.segments)
