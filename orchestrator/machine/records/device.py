"""What is known of each device: life, connection, boot, what it can and what it holds.

A record only. When life counts as proven or lost is `liveness`; who holds which frame is with
the items.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from wire.ids import PartitionId, TaskId
from wire.lifecycle import Lifecycle
from wire.messages.residency import Failure, PartitionResidency
from wire.messages.state import Capabilities
from wire.messages.telemetry import Telemetry

Residencies = dict[PartitionId, PartitionResidency]
DOUBTS_LIMIT = 2  # doublings of what a device is allowed that was doubted wrongly
DOUBTS_KEPT_S = 60.0
BENCH_S, BENCH_DOUBLINGS = 30.0, 7  # half a minute the first time, an hour after many
LOAD_DEATHS_LIMIT = 16  # partitions whose loads ended its agent, that are remembered
ENDED_LIMIT = 16  # connection ids remembered as over, per device


@dataclass(frozen=True, slots=True)
class Refusal:
    """A partition this device failed to serve; it is asked again from `until` on."""

    failure: Failure
    until: float


@dataclass(frozen=True, slots=True)
class LoadDeaths:
    """How often in a row its agent ended while it loaded a partition, and until when the device is
    not asked for that again."""

    count: int
    until: float


class Keeper(Protocol):
    """Whoever keeps indices over devices: told after each change that they depend on."""

    def device_changed(self, device: Device) -> None: ...

    def enabled(self, device: Device) -> None: ...

    def refusal_changed(
        self, device: Device, partition: PartitionId, before: Refusal | None
    ) -> None: ...

    def residency_changed(self, device: Device, before: Residencies) -> None: ...


@dataclass(slots=True)
class Device:
    name: str
    life: Lifecycle
    keeper: Keeper | None = None
    connection: str = ""  # the id that proves life; never one of `ended`
    boot: str = ""
    former_boots: deque[str] = field(default_factory=lambda: deque(maxlen=ENDED_LIMIT))
    capabilities: Capabilities | None = None
    telemetry: Telemetry | None = None
    draining: bool = False
    foreign: bool = False  # it speaks no version of the wire that we do: it gets no work
    budget_nbytes: int = 0  # what partitions may take there; at most what it told
    last_life: float = float("-inf")  # last proof of life
    engaged_since: float | None = None  # since then it holds work, as far as was looked
    progress_at: float = float("-inf")  # when it last did anything for anyone
    pinged_at: float | None = None
    ping: tuple[str, float] | None = None  # nonce and time of one that was not answered
    rtt_s: float | None = None
    offset_s: float | None = None  # its clock minus ours
    cached: frozenset[str] = frozenset()  # digests on its disk, as it told
    residency: Residencies = field(default_factory=dict)
    applied_stamp: tuple[int, int] = (0, 0)  # of the assignment that it last answered
    last_seq: int | None = None  # last event handled; None: the boot is older than what we know
    gap: tuple[int, int, float] | None = None
    unacknowledged: int = 0
    ended: deque[str] = field(default_factory=lambda: deque(maxlen=ENDED_LIMIT))
    refused: dict[PartitionId, Refusal] = field(default_factory=dict)
    running: TaskId | None = None  # its boot's last that it told of, and did not tell the end of
    running_seq: int = 0  # the last event of the batch that told of it
    beaten: TaskId | None = None  # one of its tasks that another device did sooner
    load_deaths: dict[PartitionId, LoadDeaths] = field(default_factory=dict)  # newest last
    tasks: dict[PartitionId, int] = field(default_factory=dict)  # done, by partition
    reported_at: float = float("-inf")
    doubtful: bool = False  # connected anew: what was under way to and from it may be lost
    unplaced: bool = False  # it spoke of a place that it is not known to have
    claims: int = 0  # of a higher generation than ours, that were believed
    answer_by: float = float("-inf")  # a device with work is to have answered its ping by then
    doubted_at: float | None = None  # since then it has not answered, nor said anything
    doubts: tuple[int, float] = (0, float("-inf"))  # in a row that proved wrong, and when the last
    absent_s: float = 0.0  # not heard of for so long, while we could hear, at `counted_at`
    counted_at: float = float("-inf")
    absence_kept: bool = False  # the journal has one
    benched_until: float = float("-inf")  # did nothing with what it was given: gets nothing
    benchings: int = 0  # in a row
    missed_connection: str = ""  # whose residency came before its birth, and was not read

    @property
    def reachable(self) -> bool:
        """Can be sent to and asked of: alive, or draining."""
        return self.life.state in ("alive", "draining")

    @property
    def may_be_able(self) -> bool:
        """It said what it can, in words that we understand."""
        return self.capabilities is not None and not self.foreign

    def status_of(self, partition: PartitionId) -> str | None:
        entry = self.residency.get(partition)
        return entry.status if entry is not None else None

    @property
    def stuck(self) -> bool:
        """In a task that another did meanwhile, and of which it has not told the end."""
        return self.beaten is not None and self.running == self.beaten

    def wrong_doubts(self, now: float) -> int:
        """How often lately it was taken to be gone, and was not."""
        count, at = self.doubts
        return count if now < at + DOUBTS_KEPT_S else 0

    # --- what changes it ----------------------------------------------------------------------

    def move(self, to: str, now: float, why: str) -> None:
        self.life.move(to, now, why)
        self._changed()

    def settle(self, to: str, now: float, why: str) -> bool:
        """Move unless there already; whether it moved."""
        moved = self.life.settle(to, now, why)
        if moved:
            self._changed()
        return moved

    def hear(self, now: float) -> None:
        """It proved life."""
        self.last_life = now
        self._changed()

    def speaks(self, *, foreign: bool) -> None:
        """Whether we understand each other, as it told."""
        if foreign != self.foreign:
            self.foreign = foreign
            self._changed()

    def announce(self, capabilities: Capabilities) -> None:
        before = self.capabilities.memory_budget_nbytes if self.capabilities is not None else None
        self.capabilities = capabilities
        if capabilities.memory_budget_nbytes != before:
            self.budget_nbytes = capabilities.memory_budget_nbytes
        self._changed()
        if self.keeper is not None:
            self.keeper.enabled(self)

    def limit_budget(self, nbytes: int) -> None:
        """It measured more than the formula says: plan smaller ranges for it from now on."""
        self.budget_nbytes = min(self.budget_nbytes, nbytes)
        if self.keeper is not None:
            self.keeper.enabled(self)

    def forget_limits(self) -> None:
        """Another process may take what it tells."""
        if self.capabilities is not None:
            self.budget_nbytes = self.capabilities.memory_budget_nbytes

    def reside(self, residency: Residencies) -> bool:
        """What it says of its partitions, all of them; whether that is news."""
        before, self.residency = self.residency, residency
        if self.residency == before:
            return False
        if self.keeper is not None:
            self.keeper.residency_changed(self, before)
        return True

    def refuse(self, partition: PartitionId, refusal: Refusal) -> None:
        """It failed to serve the partition, and has nothing of it in memory."""
        before = self.refused.get(partition)
        self.refused[partition] = refusal
        if partition in self.residency:
            self.reside({part: each for part, each in self.residency.items() if part != partition})
        self._refusal_changed(partition, before)

    def forgive(self, *partitions: PartitionId) -> None:
        """It may be asked for these again; for all if none is named."""
        for partition in partitions or tuple(self.refused):
            before = self.refused.pop(partition, None)
            if before is not None:
                self._refusal_changed(partition, before)

    def bench(self, now: float) -> None:
        """It gets nothing for a while, which doubles until it has done a task."""
        self.benched_until = now + BENCH_S * 2**self.benchings
        self.benchings = min(BENCH_DOUBLINGS, self.benchings + 1)
        self._changed()

    def note_load_death(self, partition: PartitionId, deaths: LoadDeaths) -> None:
        self.load_deaths.pop(partition, None)
        self.load_deaths[partition] = deaths
        if len(self.load_deaths) > LOAD_DEATHS_LIMIT:
            del self.load_deaths[next(iter(self.load_deaths))]

    def runs(self, task: TaskId | None) -> None:
        """It told that it began this task."""
        self.running, self.running_seq = task, self.last_seq or 0

    def forget_before(self) -> None:
        """It began another task since the batches before, which told of none that began later."""
        if self.running_seq < (self.last_seq or 0):
            self.running = None

    def ended_task(self, task: TaskId) -> None:
        """It told the end of this task."""
        self.benchings = 0
        if self.running is not None and self.running.needs == task.needs:
            self.running = None

    def _refusal_changed(self, partition: PartitionId, before: Refusal | None) -> None:
        if self.keeper is not None:
            self.keeper.refusal_changed(self, partition, before)

    def cache(self, digests: Iterable[str]) -> None:
        """These too. Kept once for all devices: a digest takes 113 bytes."""
        self.cached = self.cached.union(map(sys.intern, digests))

    def end_connection(self) -> None:
        """Nothing said under the current connection id proves life any more."""
        if self.connection and self.connection not in self.ended:
            self.ended.append(self.connection)

    @property
    def doubted(self) -> bool:
        return self.doubted_at is not None

    def note_wrong_doubt(self, now: float) -> None:
        self.doubts = min(DOUBTS_LIMIT, self.wrong_doubts(now) + 1), now

    def note_clock(self, rtt_s: float, offset_s: float) -> None:
        """Keep the estimate of the quickest ping: its error is at most half its round trip."""
        if self.rtt_s is None or rtt_s <= 2 * self.rtt_s:
            self.rtt_s, self.offset_s = rtt_s, offset_s

    def _changed(self) -> None:
        if self.keeper is not None:
            self.keeper.device_changed(self)
