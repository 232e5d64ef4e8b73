"""A plan: how one model in one mode is served now, range by range.

Records only: `planning` makes and changes plans, `assigning` gives out their partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.machine.records.item import Item, ItemKey
from orchestrator.machine.records.placement import Placement
from wire.manifest import Manifest
from wire.messages.residency import Failure

PlanKey = tuple[str, bool]  # the model's digest, and whether outputs are to be exact


@dataclass(frozen=True, slots=True)
class Want:
    """What a run's options say about its plan."""

    partitions: int | None
    policy: str


@dataclass(slots=True)
class Plan:
    """`in_flight` are its admitted items, in order of admission. `fleet` are the devices that could
    be used, since when; `judged`: whether it was compared with a new one for
    them, for which run and when; `retiring`: nothing is admitted until it can be replaced.
    `starved_since`: from when on there was no device for something that waits.
    `check_at`: no item in flight is due to be looked after before. `moved_at`: when an item of
    it was last admitted, or ended."""

    key: PlanKey
    manifest: Manifest
    want: Want
    placements: list[Placement] = field(default_factory=list)
    in_flight: dict[ItemKey, Item] = field(default_factory=dict)
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
