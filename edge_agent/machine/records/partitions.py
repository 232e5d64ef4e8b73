"""The partitions that the assignment lists, each with its state, and those that still leave.

Says what a partition needs and what of it is missing; what to fetch, load or run next is decided
elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import cast

from edge_agent.machine.records.transitions import Life
from wire.ids import ActivationId, PartitionId
from wire.manifest import BlobRef
from wire.memory import resident_need, streamed_need
from wire.messages.assignment import PartitionAssignment
from wire.messages.residency import Failure, ResidencyStatus
from wire.messages.state import Capabilities

IN_MEMORY = frozenset({"loading", "resident", "evicting"})
Key = tuple[str, bool, int]  # model digest, exact, cut


@dataclass
class Partition:
    """One listed partition. `unfit` says why it can never be served here as it is."""

    assigned: PartitionAssignment
    life: Life
    blobs: tuple[BlobRef, ...] = ()
    listed: bool = True
    streamed: bool = False
    unfit: Failure | None = None
    failure: Failure | None = None
    fetching_since: float | None = None
    fetch_s: float = 0.0
    fetched_nbytes: int = 0
    refetches: int = 0
    slowest_task_s: float = 0.0
    slowest_load_s: float = 0.0
    segment_s: tuple[float, ...] = field(default=())

    @property
    def id(self) -> PartitionId:
        return self.assigned.partition

    @property
    def status(self) -> ResidencyStatus:
        return cast(ResidencyStatus, self.life.state)  # the table has no other

    @property
    def key(self) -> Key:
        """What its inputs are known by."""
        return (self.id.model, self.id.exact, self.id.first)

    @property
    def total_nbytes(self) -> int:
        return sum(blob.nbytes for blob in self.blobs)

    def missing(self, cached: Collection[str]) -> list[BlobRef]:
        return [blob for blob in self.blobs if blob.digest not in cached]

    def makes(self, needs: ActivationId) -> ActivationId:
        return ActivationId(needs.run, needs.item, self.id.cut)

    def fail(self, failure: Failure, now: float) -> None:
        self.failure = failure
        self.fetching_since = None
        self.life.move("failed", now, failure.kind)


class Partitions:
    """Listed partitions in the assignment's order, then those that still leave memory."""

    def __init__(self) -> None:
        self._records: dict[PartitionId, Partition] = {}
        self._by_key: dict[Key, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._records.values())

    def __getitem__(self, partition: PartitionId) -> Partition:
        return self._records[partition]

    def get(self, partition: PartitionId) -> Partition | None:
        return self._records.get(partition)

    def listed(self) -> Iterator[Partition]:
        return (record for record in self if record.listed)

    def taking(self, key: Key) -> Partition | None:
        """Who takes inputs of this key; the longest range if several start there."""
        return self._by_key.get(key)

    def pinned(self) -> set[str]:
        """Digests that a partition here uses; one that can never be served pins nothing."""
        return {blob.digest for record in self if not record.unfit for blob in record.blobs}

    def list_anew(
        self, listing: tuple[PartitionAssignment, ...], capabilities: Capabilities, now: float
    ) -> None:
        """Take over a new assignment's list; what failed before is tried again."""
        before = self._records
        self._records = {}
        for assigned in listing:
            known = before.pop(assigned.partition, None)
            record = known or self._records.get(assigned.partition) or _fresh(assigned)
            self._renew(record, assigned, now)
            self._records[assigned.partition] = record
        self._keep_leaving(before)
        self._weigh(capabilities)
        self._index()

    def _renew(self, record: Partition, assigned: PartitionAssignment, now: float) -> None:
        record.assigned, record.blobs, record.listed = assigned, assigned.blobs, True
        record.refetches = 0
        if record.life.state == "failed":
            record.failure = None
            record.life.move("waiting", now, "listed again")

    def _keep_leaving(self, before: dict[PartitionId, Partition]) -> None:
        for record in before.values():
            record.listed = False
            if record.life.state in IN_MEMORY:
                self._records[record.id] = record

    def _weigh(self, capabilities: Capabilities) -> None:
        pinned: dict[str, int] = {}
        for record in self.listed():
            record.streamed, record.unfit = weighed(record.assigned, capabilities)
            wanted = pinned | {blob.digest: blob.nbytes for blob in record.blobs}
            if record.unfit is None and sum(wanted.values()) > capabilities.disk_budget_nbytes:
                record.unfit = _too_little_disk(record, sum(wanted.values()), capabilities)
            if record.unfit is None:
                pinned = wanted

    def _index(self) -> None:
        self._by_key = {}
        for record in sorted(self.listed(), key=lambda record: record.id.last):
            self._by_key[record.key] = record

    def remove(self, record: Partition) -> None:
        """It left memory and is not listed any more."""
        del self._records[record.id]


def _fresh(assigned: PartitionAssignment) -> Partition:
    return Partition(assigned, Life("partition", assigned.partition, "waiting"))


def weighed(
    assigned: PartitionAssignment, capabilities: Capabilities
) -> tuple[bool, Failure | None]:
    """Whether it must be streamed, and why it does not even fit so."""
    budget = capabilities.memory_budget_nbytes
    whole = resident_need(assigned.segments)
    if whole <= budget:
        return False, None
    least = streamed_need(assigned.segments)
    if least <= budget:
        return True, None
    return False, Failure(
        "over_budget",
        f"{assigned.model_name} {assigned.partition} needs {whole} bytes of memory, or {least} "
        f"segment by segment, and the budget is {budget}: give the agent {least - budget} bytes "
        "more, or plan smaller partitions",
    )


def _too_little_disk(record: Partition, nbytes: int, capabilities: Capabilities) -> Failure:
    budget = capabilities.disk_budget_nbytes
    return Failure(
        "over_budget",
        f"{record.assigned.model_name} {record.id} and what is listed before it need {nbytes} "
        f"bytes of disk, and the budget is {budget}: give the cache {nbytes - budget} bytes more",
    )
