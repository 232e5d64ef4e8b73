"""A plan: how one model in one mode is served now, range by range.

Records only. A placement has a preliminary choice from the start, and a device once it is
assigned; `planning` makes and changes plans, `assigning` gives out their partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.machine.records.item import Item, ItemKey
from orchestrator.machine.records.transitions import lifecycle_of
from orchestrator.planner.offers import Range, hold_need
from orchestrator.planner.placement import Choice
from wire.ids import PartitionId
from wire.lifecycle import Lifecycle
from wire.manifest import Manifest, SegmentSpec
from wire.messages.residency import Failure

PlanKey = tuple[str, bool]  # the model's digest, and whether outputs are to be exact


@dataclass(frozen=True, slots=True)
class Want:
    """What a run's options say about its plan."""

    partitions: int | None
    policy: str


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


@dataclass(slots=True)
class Plan:
    """`flying` are its admitted items, in order of admission. `fleet` are the devices that could
    be used, since when; `judged`: whether it was compared with a new one for
    them, for which run and when; `retiring`: nothing is admitted until it can be replaced.
    `starved_since`: from when on there was no device for something that waits.
    `check_at`: no item in flight is due to be looked after before. `moved_at`: when an item of
    it was last admitted, or ended."""

    key: PlanKey
    manifest: Manifest
    want: Want
    placements: list[Placement] = field(default_factory=list)
    flying: dict[ItemKey, Item] = field(default_factory=dict)
    fleet: frozenset[str] = frozenset()
    fleet_since: float = float("-inf")
    retiring: bool = False
    judged: bool = False
    judged_for: str = ""
    judged_at: float = float("-inf")
    starved_since: float | None = None
    starved_of: tuple[str, str] | None = None
    broken: Failure | None = None
    broken_until: float = float("-inf")
    due_at: float = float("inf")
    check_at: float = float("inf")
    moved_at: float = float("-inf")

    @property
    def cuts(self) -> tuple[int, ...]:
        """Where activations pass: before each range, and after the last."""
        return (*(each.partition.first for each in self.placements), self.end)

    @property
    def end(self) -> int:
        return len(self.manifest.segments)

    def stage_of(self, cut: int) -> Placement | None:
        """The placement that takes its input at this cut."""
        return next((each for each in self.placements if each.partition.first == cut), None)

    def target(self, item: Item, cut: int) -> str | None:
        """Who is to have this item's activation at this cut; None while nobody is chosen."""
        placement = self.stage_of(cut)
        if placement is None:
            return None
        return item.detours.get(cut) or placement.device

    def devices(self) -> list[str]:
        """All assigned devices, in order, once each."""
        used = [each.device for each in self.placements if each.device is not None]
        helpers = [device for each in self.placements for device in each.standins]
        return list(dict.fromkeys([*used, *helpers]))

    def hop_nbytes_on(self, device: str) -> int:
        """Bytes that one item may take on this device at worst."""
        return sum(each.hop_nbytes for each in self.placements if each.likely == device)


def placement_of(
    manifest: Manifest, exact: bool, each: Range, overhead_nbytes: int, now: float
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
