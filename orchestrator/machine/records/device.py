"""What is known of each device: life, connection, boot, what it can and what it holds.

A record only. When life counts as proven or lost is `liveness`; who holds which frame is with
the items.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from orchestrator.machine.records.transitions import lifecycle_of
from wire.ids import PartitionId
from wire.lifecycle import Lifecycle
from wire.messages.residency import Failure, PartitionResidency
from wire.messages.state import Capabilities
from wire.messages.telemetry import Telemetry

ENDED_LIMIT = 16  # connection ids remembered as over, per device


@dataclass(frozen=True, slots=True)
class Refusal:
    """A partition this device failed to serve; not asked again before `until`."""

    failure: Failure
    until: float


@dataclass(slots=True)
class Device:
    """`last_seq`: the last event of this boot that was handled; None if unknown because the boot
    is older than our knowledge. `applied_stamp`: the stamp of the assignment it last answered.
    `doubtful`: it connected anew, and what was under way to and from it may be lost.
    `tasks`: how many of each partition it did. `progress_at`: when it last did anything for
    anyone. `offset_s` is its clock minus ours."""

    name: str
    life: Lifecycle
    connection: str = ""
    boot: str = ""
    capabilities: Capabilities | None = None
    telemetry: Telemetry | None = None
    draining: bool = False
    last_life: float = float("-inf")
    engaged_since: float | None = None
    progress_at: float = float("-inf")
    pinged_at: float | None = None
    ping: tuple[str, float] | None = None
    rtt_s: float | None = None
    offset_s: float | None = None
    cached: set[str] = field(default_factory=set)
    residency: dict[PartitionId, PartitionResidency] = field(default_factory=dict)
    applied_stamp: tuple[int, int] = (0, 0)
    last_seq: int | None = None
    gap: tuple[int, int, float] | None = None
    unacknowledged: int = 0
    ended: deque[str] = field(default_factory=lambda: deque(maxlen=ENDED_LIMIT))
    refused: dict[PartitionId, Refusal] = field(default_factory=dict)
    tasks: dict[PartitionId, int] = field(default_factory=dict)
    budget_limit_nbytes: int | None = None
    reported_at: float = float("-inf")
    inventoried_at: float = float("-inf")
    doubtful: bool = False

    @property
    def reachable(self) -> bool:
        """Can be sent to and asked of: alive, or draining."""
        return self.life.state in ("alive", "draining")

    @property
    def budget_nbytes(self) -> int:
        """What partitions may take there: as told, or less if it once refused as too much."""
        told = self.capabilities.memory_budget_nbytes if self.capabilities else 0
        return told if self.budget_limit_nbytes is None else min(told, self.budget_limit_nbytes)

    def status_of(self, partition: PartitionId) -> str | None:
        entry = self.residency.get(partition)
        return entry.status if entry is not None else None

    def end_connection(self) -> None:
        """Nothing said under the current connection id proves life any more."""
        if self.connection and self.connection not in self.ended:
            self.ended.append(self.connection)

    def note_clock(self, rtt_s: float, offset_s: float) -> None:
        """Keep the estimate of the quickest ping: its error is at most half its round trip."""
        if self.rtt_s is None or rtt_s <= 2 * self.rtt_s:
            self.rtt_s, self.offset_s = rtt_s, offset_s


class Registry:
    """All devices that were ever heard of and not forgotten, by name."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices.values())

    def __contains__(self, name: str) -> bool:
        return name in self._devices

    def get(self, name: str | None) -> Device | None:
        return self._devices.get(name) if name is not None else None

    def met(self, name: str, now: float) -> Device:
        """The device, added as unproven if it is new."""
        if name not in self._devices:
            self._devices[name] = Device(name, lifecycle_of("device", name, "unproven", now))
        return self._devices[name]

    def forget(self, name: str) -> None:
        self._devices.pop(name, None)

    def reachable(self, name: str | None) -> bool:
        device = self.get(name)
        return device is not None and device.reachable
