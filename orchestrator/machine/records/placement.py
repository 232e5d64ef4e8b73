"""A placement: one range of a plan, and the device that serves it or is expected to.

Records only. It has a preliminary choice from the start, and a device once it is assigned. Each
change tells the plan, which keeps indices by device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.machine.records.item import ItemKey
from orchestrator.machine.records.task_times import TaskTimes
from orchestrator.machine.records.transitions import lifecycle_of
from orchestrator.planner.offers import SegmentRange, hold_need
from orchestrator.planner.ranking import Choice
from wire.ids import PartitionId
from wire.lifecycle import Cause, Lifecycle
from wire.manifest import Manifest, SegmentSpec


@dataclass(slots=True)
class Placement:
    """One range of a plan. The state is "planned" exactly while `device` is None."""

    partition: PartitionId
    streamed: bool
    segments: tuple[SegmentSpec, ...]
    hop_nbytes: int  # what one item may take at this hop at worst
    life: Lifecycle
    meant: str | None = None  # whom the planner's estimate had it on
    device: str | None = None  # who is told to serve it
    choice: Choice | None = None  # who is expected to; the device's own once it is assigned
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)  # who was told first when
    standins: dict[str, dict[ItemKey, None]] = field(default_factory=dict)  # others, for items
    load_deaths: dict[str, None] = field(default_factory=dict)  # devices that ended loading it
    no_help_until: float = float("-inf")  # nobody was free for a late task
    task_times: TaskTimes = field(default_factory=TaskTimes)  # of its device
    changed: Callable[[], None] | None = None  # tells the plan; None in a plan that is nobody's

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

    def choose(self, choice: Choice | None) -> None:
        """Expect it to go there, unless it is assigned already."""
        if self.device is None and choice != self.choice:
            self.choice = choice
            self._tell()

    def give(self, device: str, now: float, why: str) -> None:
        """Assign it."""
        self.device, self.task_times = device, TaskTimes()
        if device not in self.standins:
            self.stamps.pop(device, None)
        self.life.move("assigned", now, f"{device}: {why}")
        self._tell()

    def withdraw(self, now: float, why: str) -> None:
        """Back to planned, without a choice."""
        if self.life.state != "planned":
            self.life.move("planned", now, why)
        if self.device is not None and self.device not in self.standins:
            self.stamps.pop(self.device, None)
        self.device, self.choice = None, None
        self._tell()

    def stand_in(self, device: str, item: ItemKey) -> None:
        """Another device serves it for this item."""
        self.standins.setdefault(device, {})[item] = None
        self._tell()

    def release_standin(self, device: str, item: ItemKey) -> None:
        """The item needs it there no more; the last one gives the device back."""
        served = self.standins.get(device)
        if served is None or served.pop(item, 0) is not None or served:
            return
        self.end_standin(device)

    def end_standin(self, device: str) -> list[ItemKey]:
        """The device serves it no more for single items; which ones it did."""
        served = self.standins.pop(device, None)
        if served is None:
            return []
        if self.device != device:
            self.stamps.pop(device, None)
        self._tell()
        return list(served)

    def _tell(self) -> None:
        if self.changed is not None:
            self.changed()


def placement_of(
    manifest: Manifest,
    exact: bool,
    each: SegmentRange,
    overhead_nbytes: int,
    now: float,
    cause: Cause,
) -> Placement:
    partition = PartitionId(manifest.digest, exact, each.first, each.last)
    return Placement(
        partition=partition,
        streamed=each.streamed,
        segments=manifest.segments[each.first : each.last + 1],
        hop_nbytes=hold_need(manifest, each.first, each.last) + 2 * overhead_nbytes,
        life=lifecycle_of("placement", str(partition), "planned", now, cause),
        meant=each.device,
    )
