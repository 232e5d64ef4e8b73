"""`devices/<d>/state` and `orchestrator/state`: retained birth and last will.

Birth and will carry the same connection id. A retained "online" proves nothing: only a message
that was not retained and carries the current connection id proves life.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
class DeviceState:
    """An agent's birth, farewell or last will. `boot` is fresh at each start of the process."""

    status: Status
    connection: str
    boot: str
    agent_version: str
    wire_version: int
    capabilities: Capabilities | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class OrchestratorState:
    status: Status
    connection: str
    boot: str
    generation: int
    version: str
    wire_version: int
    store_base: str = ""
