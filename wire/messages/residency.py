"""`devices/<d>/residency`: the reported state of one device, retained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wire.ids import PartitionId

ResidencyStatus = Literal[
    "waiting", "fetching", "cached", "loading", "resident", "evicting", "failed"
]
"""`waiting` for its turn to fetch; `cached` says all bytes are on disk and verified."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A typed failure: `kind` is one of `wire.errors.BY_KIND`."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionResidency:
    """`streamed`: it is larger than the budget, so its weights pass through memory segment by
    segment; otherwise they stay there, and it runs at full speed."""

    partition: PartitionId
    model_name: str
    status: ResidencyStatus
    fetched_nbytes: int
    total_nbytes: int
    streamed: bool = False
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Residency:
    """Answers assignment (generation, revision); cached counts cover the whole disk cache.
    Orders of a generation below `least_generation` are not obeyed there."""

    connection: str
    generation: int
    revision: int
    partitions: tuple[PartitionResidency, ...]
    cached_count: int
    cached_nbytes: int
    least_generation: int = 0
