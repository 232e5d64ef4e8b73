"""A placement: one range of a plan, and the device that serves it or is expected to.

Records only. It has a preliminary choice from the start, and a device once it is assigned.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.machine.records.item import ItemKey
from orchestrator.machine.records.transitions import lifecycle_of
from orchestrator.planner.offers import SegmentRange, hold_need
from orchestrator.planner.ranking import Choice
from wire.ids import PartitionId
from wire.lifecycle import Lifecycle
from wire.manifest import Manifest, SegmentSpec


@dataclass(slots=True)
class Placement:
    """One range of a plan. `stamps`: per device the assignment that first listed it there.
    `meant`: whom the planner's estimate had it on. `standins` are other devices that serve it for
    single items which failed on `device`."""

    partition: PartitionId
    streamed: bool
    segments: tuple[SegmentSpec, ...]
    hop_nbytes: int
    life: Lifecycle
    meant: str | None = None
    device: str | None = None
    choice: Choice | None = None
    assigned_at: float = 0.0
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)
    standins: dict[str, dict[ItemKey, None]] = field(default_factory=dict)

    @property
    def likely(self) -> str | None:
        """The device it is on, or is expected to go to."""
        if self.device is not None:
            return self.device
        return self.choice.device if self.choice is not None else None

    @property
    def cost(self) -> float:
        return sum(segment.cost for segment in self.segments)

    @property
    def total_nbytes(self) -> int:
        unique = {blob.digest: blob.nbytes for segment in self.segments for blob in segment.blobs}
        return sum(unique.values())


def placement_of(
    manifest: Manifest, exact: bool, each: SegmentRange, overhead_nbytes: int, now: float
) -> Placement:
    partition = PartitionId(manifest.digest, exact, each.first, each.last)
    return Placement(
        partition=partition,
        streamed=each.streamed,
        segments=manifest.segments[each.first : each.last + 1],
        hop_nbytes=hold_need(manifest, each.first, each.last) + 2 * overhead_nbytes,
        life=lifecycle_of("placement", str(partition), "planned", now),
        meant=each.device,
    )
