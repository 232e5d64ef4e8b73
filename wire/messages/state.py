"""`devices/<d>/state` and `orchestrator/state`: retained birth and last will.

Birth and will carry the same connection id. A retained "online" proves nothing: only a message
that was not retained and carries the current connection id proves life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wire.ids import PartitionId, TaskId
from wire.versions import WireRange

Status = Literal["online", "draining", "offline"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a device can hold and run; constant for a boot.

    `memory_budget_nbytes` bounds what loaded partitions may take above the agent's own floor;
    `hold_nbytes` bounds frames and outputs held in memory and on disk together.
    """

    memory_budget_nbytes: int
    disk_budget_nbytes: int
    hold_nbytes: int
    cores: int
    architecture: str
    runtime_version: str
    max_opset: int
    platform: str = ""
    python_version: str = ""


@dataclass(frozen=True, slots=True)
class LastWork:
    """What the process of `boot` was at when it ended without a farewell, as it had noted on disk:
    running `task`, or loading `partition`. Neither: nothing that could have ended it."""

    boot: str
    task: TaskId | None = None
    partition: PartitionId | None = None


@dataclass(frozen=True, slots=True)
class DeviceState:
    """An agent's birth, farewell or last will. `boot` is fresh at each start of the process;
    `last_work` is of the boot before, None if there was none or nothing could be noted. `reason`:
    why it is offline or drains, or, online, why it obeys nobody."""

    status: Status
    connection: str
    boot: str
    agent_version: str
    wire_version: int
    capabilities: Capabilities | None = None
    reason: str | None = None
    last_work: LastWork | None = None
    oldest_wire_version: int | None = None

    @property
    def versions(self) -> WireRange:
        return WireRange.told(self.oldest_wire_version, self.wire_version)


@dataclass(frozen=True, slots=True)
class OrchestratorState:
    """`contested`: names of devices that two agents use, some of them if there are many."""

    status: Status
    connection: str
    boot: str
    generation: int
    version: str
    wire_version: int
    store_base: str = ""
    contested: tuple[str, ...] = ()
    oldest_wire_version: int | None = None

    @property
    def versions(self) -> WireRange:
        return WireRange.told(self.oldest_wire_version, self.wire_version)
