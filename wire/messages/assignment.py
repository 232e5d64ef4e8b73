"""`devices/<d>/assignment`: the desired state of one device, retained.

Lists everything the device should serve; what is missing from it is to be evicted. The
generation rises with every start of an orchestrator, the revision with every change. Holds
digests and a base for the store, never a secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.ids import PartitionId
from wire.manifest import BlobRef, SegmentSpec


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """What an agent must know of a segment to fetch, weigh, load and run it. `row_nbytes` of its
    weights are the tables `row_tables`, of which it reads rows."""

    index: int
    graph: BlobRef
    weights: tuple[BlobRef, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    peak_activation_nbytes: int
    cost: float
    row_tables: tuple[str, ...] = ()
    row_nbytes: int = 0

    @classmethod
    def of(cls, spec: SegmentSpec) -> SegmentRef:
        return cls(
            index=spec.index,
            graph=spec.graph,
            weights=spec.weights,
            inputs=spec.inputs,
            outputs=spec.outputs,
            peak_activation_nbytes=spec.peak_activation_nbytes,
            cost=spec.cost,
            row_tables=spec.row_tables,
            row_nbytes=spec.row_nbytes,
        )

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        return (self.graph, *self.weights)

    @property
    def graph_nbytes(self) -> int:
        return self.graph.nbytes

    @property
    def weight_nbytes(self) -> int:
        return sum(blob.nbytes for blob in self.weights)


@dataclass(frozen=True, slots=True)
class BatchTerms:
    """Items that ask for it may be computed together: their tensors joined along the first axis,
    `rows` in all at most, for which memory is planned. `shared` tensors have no such axis, and are
    the same for all."""

    rows: int
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionAssignment:
    """A partition to serve. `accepts_nbytes` bounds the raw live set at cut `first`;
    `emits` names the live set at the cut after it, in order, at most `emits_nbytes` raw.
    `senders` are the parties that have or had a place before cut `first`: inputs are taken from
    them alone; None: from anybody. `batch` None: each item is computed alone."""

    partition: PartitionId
    model_name: str
    tier: int
    segments: tuple[SegmentRef, ...]
    accepts_nbytes: int
    emits: tuple[str, ...]
    emits_nbytes: int
    senders: tuple[str, ...] | None = None
    batch: BatchTerms | None = None

    def __post_init__(self) -> None:
        wanted = tuple(range(self.partition.first, self.partition.last + 1))
        if tuple(segment.index for segment in self.segments) != wanted or not wanted:
            raise ValueError(f"segments do not match {self.partition}")

    @property
    def blobs(self) -> tuple[BlobRef, ...]:
        unique = {blob.digest: blob for segment in self.segments for blob in segment.blobs}
        return tuple(unique.values())


@dataclass(frozen=True, slots=True)
class Route:
    """Who needs cut `cut`: item k goes to entry k mod length; empty says keep it (parked)."""

    model: str
    exact: bool
    cut: int
    dependents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds the agent keeps. An early frame is held `early_s`, then dropped with an event."""

    early_nbytes: int = 64 << 20
    early_s: float = 60.0
    reassembly_s: float = 60.0


@dataclass(frozen=True, slots=True)
class FormerPartition:
    partition: PartitionId


@dataclass(frozen=True, slots=True)
class FormerAssignment:
    """All that an orchestrator reads of an assignment that it finds retained."""

    generation: int
    partitions: tuple[FormerPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    generation: int
    revision: int
    store_base: str
    partitions: tuple[PartitionAssignment, ...] = ()
    routes: tuple[Route, ...] = ()
    limits: Limits = Limits()

    @property
    def stamp(self) -> tuple[int, int]:
        """What orders assignments: generations first."""
        return (self.generation, self.revision)
