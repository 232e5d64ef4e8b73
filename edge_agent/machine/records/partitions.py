"""The partitions that the assignment lists, each with its state, and those that still leave.

Knows which blobs each partition needs and which of them are missing, and keeps the indices that
the rules need: which partition takes an input, for which to fetch first, which can be loaded.
States are changed by the methods here alone. What to fetch, load or run next is decided in
`assignment` and `execution`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from edge_agent.machine.records.cache import Cache
from edge_agent.machine.records.fetches import Fetches
from edge_agent.machine.records.fitting import fit
from edge_agent.machine.records.ranked_set import RankedSet
from edge_agent.machine.records.transitions import life_of
from wire.ids import ActivationId, PartitionId
from wire.lifecycle import Cause, Lifecycle
from wire.manifest import BlobRef
from wire.messages.assignment import PartitionAssignment
from wire.messages.residency import Failure, PartitionResidency, ResidencyStatus
from wire.messages.state import Capabilities

IN_MEMORY = frozenset({"loading", "resident", "evicting"})
INCOMPLETE = frozenset({"waiting", "fetching"})
BEFORE_LOADING = frozenset({"waiting", "fetching", "cached"})
Key = tuple[str, bool, int]  # model digest, exact, cut


@dataclass
class Partition:
    """One listed partition, or one that leaves memory."""

    assigned: PartitionAssignment  # as listed last
    life: Lifecycle  # moved by `Partitions.move` and `fail` alone
    blobs: dict[str, BlobRef] = field(default_factory=dict)  # of `assigned`, by digest, in order
    places: dict[str, int] = field(default_factory=dict)  # of `blobs` in their order
    total_nbytes: int = 0  # of `blobs`
    missing: dict[str, BlobRef] = field(default_factory=dict)  # those of `blobs` not in the cache
    missing_nbytes: int = 0  # of `missing`
    # Those of `missing` that could be fetched now, in the order of `blobs`: nobody fetches,
    # removes or retries them, and they did not fail.
    fetchable: RankedSet[str] = field(default_factory=RankedSet)
    blob_failures: dict[str, Failure] = field(default_factory=dict)  # of `missing`, for good
    listed: bool = True  # False: it leaves memory, and then `Partitions`
    streamed: bool = False  # it is too large to be loaded whole
    unfit: Failure | None = None  # why it can never be served here as it is
    failure: Failure | None = None  # set if it is `failed`, and then alone
    position: int = 0  # in the listing
    depth: int = 0  # ranks all that are listed, from the model's input to its output
    fetching_since: float | None = None  # set while it is `fetching`
    fetch_s: float = 0.0  # spent fetching since it was loaded last
    fetched_nbytes: int = 0  # to be fetched since it was loaded last
    refetches: int = 0  # loads that found rotten blobs, since it was listed last
    slowest_task_s: float = 0.0  # in this boot
    task_s: float | None = None  # what a task takes with its codec, of late; None before the first
    slowest_load_s: float = 0.0  # in this boot
    segment_s: tuple[float, ...] = ()  # of the last task, by segment

    @property
    def id(self) -> PartitionId:
        return self.assigned.partition

    @property
    def status(self) -> ResidencyStatus:
        return cast(ResidencyStatus, self.life.state)  # the table has no other

    @property
    def key(self) -> Key:
        """What its inputs are known by."""
        partition = self.assigned.partition
        return (partition.model, partition.exact, partition.first)

    def makes(self, needs: ActivationId) -> ActivationId:
        return ActivationId(needs.run, needs.item, self.id.cut)


class Partitions:
    """Listed partitions in the assignment's order, then those that still leave memory.

    The cache and the fetches report every change here, the held frames when work comes and goes.
    """

    def __init__(self, cache: Cache, fetches: Fetches, cause: Cause) -> None:
        self._cache, self._fetches, self._cause = cache, fetches, cause
        cache.on_change = fetches.on_change = self.blob_changed
        self._records: dict[PartitionId, Partition] = {}  # all; their fit blobs are pinned
        self._by_key: dict[Key, list[Partition]] = {}  # listed ones, the longest range last
        self._by_cut: dict[int, list[Partition]] = {}  # listed ones by the cut after them
        self._users: dict[str, list[Partition]] = {}  # all, by the digests of their blobs
        self.keys_with_work: set[Key] = set()  # of which an input can start
        self.missing: dict[str, int] = {}  # bytes by digest: not cached, and listed ones need it
        self.missing_nbytes = 0  # of `missing`
        # Listed ones with something to fetch now, the most urgent first.
        self.to_fetch: RankedSet[PartitionId] = RankedSet()
        # Listed ones whose state is `cached`, the one nearest to the model's input first.
        self.cached: RankedSet[PartitionId] = RankedSet()
        # Those of them that have work, the one nearest to the model's output first.
        self.ready: RankedSet[PartitionId] = RankedSet()
        self.touched: dict[PartitionId, Partition] = {}  # their blobs or state changed; unsettled
        self.status_version = 0  # rises whenever a status, a failure or the listing changes
        self.numbers_version = 0  # rises whenever something else of a residency may have changed
        # As listed last, in the order of `_records`; those of `_outdated` are to be made anew.
        self._residencies: dict[PartitionId, PartitionResidency | None] = {}
        self._outdated: dict[PartitionId, Partition] = {}

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._records.values())

    def __getitem__(self, partition: PartitionId) -> Partition:
        return self._records[partition]

    def get(self, partition: PartitionId) -> Partition | None:
        return self._records.get(partition)

    def listed(self) -> Iterator[Partition]:
        return (record for record in self if record.listed)

    def taking(self, key: Key) -> Partition | None:
        """The partition that takes inputs of this key: the longest range if several start there."""
        records = self._by_key.get(key)
        return records[-1] if records else None

    def takes(self, record: Partition) -> bool:
        return self.taking(record.key) is record

    def makers_of(self, cut: int) -> list[Partition]:
        """Listed partitions that make activations of this cut, of whatever model."""
        return self._by_cut.get(cut, [])

    def has_work(self, record: Partition) -> bool:
        """Whether an input that it takes can start."""
        return record.key in self.keys_with_work and self.takes(record)

    def pins(self, digest: str) -> bool:
        """Whether a partition here uses this blob, and can be served."""
        return any(not record.unfit for record in self._users.get(digest, ()))

    def first_to_fetch(self) -> Partition | None:
        return self._first(self.to_fetch)

    def shallowest_cached(self) -> Partition | None:
        return self._first(self.cached)

    def deepest_ready(self) -> Partition | None:
        return self._first(self.ready)

    def _first(self, ranked: RankedSet[PartitionId]) -> Partition | None:
        name = ranked.first()
        return None if name is None else self._records[name]

    # --- what changes -------------------------------------------------------------------------

    def move(self, record: Partition, to: str, now: float, why: str = "") -> None:
        record.life.move(to, now, why)
        self.status_version += 1
        self._touch(record)
        self._rank(record)

    def fail(self, record: Partition, failure: Failure, now: float) -> None:
        record.failure = failure
        record.fetching_since = None
        self.move(record, "failed", now, failure.kind)

    def work_changed(self, key: Key, has_work: bool) -> None:
        """An input of this key can start, or none can any more."""
        if has_work:
            self.keys_with_work.add(key)
        else:
            self.keys_with_work.discard(key)
        for record in self._by_key.get(key, ()):
            self._rank(record)

    def blob_changed(self, digest: str) -> None:
        """The blob came or went, or its fetch or removal began or ended."""
        for record in self._users.get(digest, ()):
            self._look_at(record, digest)
            self.numbers_version += 1
            self._touch(record)
            self._rank(record)
        self._count_missing(digest)

    def take_touched(self) -> list[Partition]:
        """Those whose state may have to change, in the listing's order; then none is left."""
        touched, self.touched = self.touched, {}
        return sorted(touched.values(), key=_position) if len(touched) > 1 else [*touched.values()]

    def remove(self, record: Partition) -> None:
        """It left memory and is not listed any more."""
        del self._records[record.id]
        self._residencies.pop(record.id)
        self._outdated.pop(record.id, None)
        self.touched.pop(record.id, None)
        self.status_version += 1
        if not record.unfit:
            self._cache.unpin(record.blobs)
        for digest in record.blobs:
            users = self._users[digest]
            users.remove(record)
            if not users:
                del self._users[digest]

    def residencies(self) -> tuple[PartitionResidency, ...]:
        """As the retained residency and the inventory list them."""
        for record in self._outdated.values():
            self._residencies[record.id] = self._residency(record)
        self._outdated.clear()
        return cast(tuple[PartitionResidency, ...], tuple(self._residencies.values()))

    def _residency(self, record: Partition) -> PartitionResidency:
        coming = sum(
            fetch.nbytes
            for digest, fetch in self._fetches.active.items()
            if digest in record.missing
        )
        return PartitionResidency(
            partition=record.id,
            model_name=record.assigned.model_name,
            status=record.status,
            fetched_nbytes=record.total_nbytes - record.missing_nbytes + coming,
            total_nbytes=record.total_nbytes,
            streamed=record.streamed,
            failure=record.failure,
        )

    # --- a new listing ------------------------------------------------------------------------

    def list_anew(
        self, listing: tuple[PartitionAssignment, ...], capabilities: Capabilities, now: float
    ) -> None:
        """Take over a new assignment's list; what failed before is tried again."""
        before = self._records
        pinned = [record.blobs for record in before.values() if not record.unfit]
        self._records = {}
        for assigned in listing:
            known = before.pop(assigned.partition, None)
            record = known or self._records.get(assigned.partition) or self._fresh(assigned)
            self._renew(record, assigned, now)
            self._records[assigned.partition] = record
        self._keep_leaving(before)
        fit(self.listed(), capabilities)
        for record in self:
            if not record.unfit:
                self._cache.pin(record.blobs)
        for blobs in pinned:  # afterwards: what stays pinned need not be ranked anew
            self._cache.unpin(blobs)
        self._index()

    def _fresh(self, assigned: PartitionAssignment) -> Partition:
        return Partition(assigned, life_of("partition", assigned.partition, "waiting", self._cause))

    def _renew(self, record: Partition, assigned: PartitionAssignment, now: float) -> None:
        if record.blobs and assigned.segments == record.assigned.segments:
            # The same object: comparing it with what is in memory then costs nothing.
            record.assigned = replace(assigned, segments=record.assigned.segments)
        else:
            record.assigned = assigned
            record.blobs = {blob.digest: blob for blob in assigned.blobs}
            record.places = {digest: place for place, digest in enumerate(record.blobs)}
            record.total_nbytes = sum(blob.nbytes for blob in record.blobs.values())
            self._look_at_all(record)
        record.listed, record.refetches = True, 0
        if record.life.state == "failed":
            record.failure = None
            record.life.move("waiting", now, "listed again")

    def _keep_leaving(self, before: dict[PartitionId, Partition]) -> None:
        for record in before.values():
            record.listed = False
            if record.life.state in IN_MEMORY:
                self._records[record.id] = record

    def _index(self) -> None:
        """Make all indices anew: a new list may change each of them."""
        self._by_key, self._by_cut, self._users = {}, {}, {}
        self.to_fetch, self.cached, self.ready = RankedSet(), RankedSet(), RankedSet()
        self.status_version += 1
        self.touched = dict(self._records)
        self._outdated = dict(self._records)
        self._residencies = dict.fromkeys(self._records)
        for position, record in enumerate(self):
            record.position = position
            for digest in record.blobs:
                self._users.setdefault(digest, []).append(record)
        for depth, record in enumerate(sorted(self.listed(), key=_depth)):
            record.depth = depth  # by the range's end last, so that the longest range is last
            self._by_key.setdefault(record.key, []).append(record)
            self._by_cut.setdefault(record.id.cut, []).append(record)
        missing = [record.missing for record in self.listed()]
        self.missing = {digest: blob.nbytes for m in missing for digest, blob in m.items()}
        self.missing_nbytes = sum(self.missing.values())
        for record in self:
            self._rank(record)

    def _look_at_all(self, record: Partition) -> None:
        record.missing, record.missing_nbytes = {}, 0
        record.fetchable, record.blob_failures = RankedSet(), {}
        for digest in record.blobs:
            self._look_at(record, digest)

    # --- indices ------------------------------------------------------------------------------

    def _touch(self, record: Partition) -> None:
        self.touched[record.id] = record
        self._outdated[record.id] = record

    def _look_at(self, record: Partition, digest: str) -> None:
        """Bring what the record knows of one of its blobs up to date."""
        blob = record.blobs[digest]
        is_missing = digest not in self._cache.blobs
        if is_missing != (digest in record.missing):
            record.missing_nbytes += blob.nbytes if is_missing else -blob.nbytes
            if is_missing:
                record.missing[digest] = blob
            else:
                del record.missing[digest]
        if is_missing and self._may_fetch(digest):
            record.fetchable.put(digest, record.places[digest])
        else:
            record.fetchable.discard(digest)
        failure = self._fetches.failed.get(digest) if is_missing else None
        if failure is not None:
            record.blob_failures[digest] = failure
        else:
            record.blob_failures.pop(digest, None)

    def _may_fetch(self, digest: str) -> bool:
        return digest not in self._cache.removing and self._fetches.may_start(digest)

    def _count_missing(self, digest: str) -> None:
        users = [record for record in self._users.get(digest, ()) if record.listed]
        self.missing_nbytes -= self.missing.pop(digest, 0)
        if users and digest in users[0].missing:
            nbytes = self.missing[digest] = users[0].blobs[digest].nbytes
            self.missing_nbytes += nbytes

    def _rank(self, record: Partition) -> None:
        """Put it into `to_fetch`, `cached` and `ready`, or take it out of them."""
        state, name, listed = record.life.state, record.id, record.listed
        if listed and state in INCOMPLETE and record.fetchable:
            self.to_fetch.put(name, self._urgency(record))
        else:
            self.to_fetch.discard(name)
        if not (listed and state == "cached"):
            self.cached.discard(name)
            self.ready.discard(name)
            return
        self.cached.put(name, record.depth)
        if self.has_work(record):
            self.ready.put(name, -record.depth)
        else:
            self.ready.discard(name)

    def _urgency(self, record: Partition) -> tuple[bool, int, int]:
        """Those whose inputs wait first, the deepest of them first; then from the model's input
        on, as the pipeline will need them."""
        first = record.id.first
        if record.key in self.keys_with_work:
            return (False, -first, record.position)
        return (True, first, record.position)


def _position(record: Partition) -> int:
    return record.position


def _depth(record: Partition) -> tuple[int, int, str, bool]:
    return (record.id.first, record.id.last, record.id.model, record.id.exact)
