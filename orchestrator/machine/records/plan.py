"""A plan: how one model in one mode is served now, range by range.

Records only: `planning` makes and changes plans, `assigning` gives out their partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.machine.records.item import Item, ItemKey
from orchestrator.machine.records.placement import Placement
from orchestrator.machine.records.vacancy import Vacancy
from wire.manifest import Manifest
from wire.messages.residency import Failure

PlanKey = tuple[str, bool]  # the model's digest, and whether outputs are to be exact

Sought = tuple[int, int | None]  # the fleet's revision, and how many partitions were wanted


@dataclass(frozen=True, slots=True)
class Want:
    """What a run's options say about its plan."""

    partitions: int | None
    policy: str


class Keeper(Protocol):
    """Whoever keeps indices over plans: told after each change that they depend on."""

    def placements_changed(self, plan: Plan) -> None: ...

    def entered(self, plan: Plan) -> None: ...

    def left(self, plan: Plan) -> None: ...


@dataclass(slots=True)
class Plan:
    key: PlanKey
    manifest: Manifest
    want: Want
    order: int = 0  # rises from plan to plan
    keeper: Keeper | None = None  # None: the plan is nobody's, made for a comparison
    placements: list[Placement] = field(default_factory=list)  # cover all segments in order
    in_flight: dict[ItemKey, Item] = field(default_factory=dict)  # admitted, in order of admission
    suspects: dict[ItemKey, Item] = field(default_factory=dict)  # set aside, in their order
    trial: Item | None = None  # the one of `in_flight` that was a suspect before
    lonely: bool = False  # there is a trial, and nothing else may be under way with it
    tried_at: float = float("-inf")  # when the last trial began
    left_count: int = 0  # items that left flight so far
    last_lonely: int = 0  # how many these were when one was tried alone for the last time
    fleet: int = -1  # the revision of the fleet that it was looked at with
    fleet_since: float = float("-inf")
    anew: bool = True  # its placements changed: runs that could not enter it may now
    shortlist: tuple[str, ...] = ()  # devices worth asking, where there are too many to ask all
    search: int | None = None  # the one under way for it
    sought: Sought = (-1, None)  # with which fleet and wish
    refused: tuple[Sought, tuple[str, str] | None] | None = None  # what was of no use, and why
    retiring: bool = False  # nothing is admitted until it can be replaced
    judged: bool = False  # it was compared with a new one for this fleet
    judged_for: str = ""  # and for this run
    judged_at: float = float("-inf")
    vacated: dict[int, Vacancy] = field(default_factory=dict)  # by first segment: to be told of
    starved_since: float | None = None  # since then something waits, and has no device
    starved_of: tuple[str, str] | None = None
    broken: Failure | None = None
    broken_until: float = float("-inf")
    moved_at: float = float("-inf")  # when an item of it was last admitted, or ended

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

    @property
    def unplaceable(self) -> bool:
        """It has no ranges, or one of them has no device, and none is expected."""
        return not self.placements or any(each.likely is None for each in self.placements)

    @property
    def unassigned(self) -> bool:
        return any(each.device is None for each in self.placements)

    def hops(self) -> dict[str, int]:
        """Bytes that one item may take at worst, by device."""
        hops: dict[str, int] = {}
        for each in self.placements:
            name = each.likely
            if name is not None:
                hops[name] = hops.get(name, 0) + each.hop_nbytes
        return hops

    def put(self, placements: Iterable[Placement]) -> None:
        """Other ranges, in the place of those before."""
        self.placements = list(placements)
        for each in self.placements:
            each.changed = self.changed
        self.changed()

    def changed(self) -> None:
        self.anew = True
        if self.keeper is not None:
            self.keeper.placements_changed(self)

    def enter(self, item: Item, now: float) -> None:
        self.in_flight[item.key] = item
        self.moved_at = now
        if self.keeper is not None:
            self.keeper.entered(self)

    def try_again(self, item: Item, *, lonely: bool, now: float) -> None:
        """It was set aside, and goes in now."""
        self.suspects.pop(item.key, None)
        self.trial, self.lonely, self.tried_at = item, lonely, now
        if lonely:
            self.last_lonely = self.left_count

    def leave(self, item: Item, now: float) -> None:
        """It has an outcome, goes home, or is set aside."""
        self.suspects.pop(item.key, None)
        if self.trial is item:
            self.trial, self.lonely = None, False
        if self.in_flight.pop(item.key, None) is not None:
            self.moved_at = now
            self.left_count += 1
            if self.keeper is not None:
                self.keeper.left(self)
