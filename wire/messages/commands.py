"""`devices/<d>/commands`: imperatives to one device. An older generation's are dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wire.ids import PartitionId


@dataclass(frozen=True, slots=True)
class Send:
    """Send the outputs held at this cut to `to`, again if need be. Idempotent."""

    type: ClassVar[str] = "send"
    run: str
    cut: int
    items: tuple[int, ...]
    to: str


@dataclass(frozen=True, slots=True)
class Release:
    """Outputs at this cut are no longer needed: forget them."""

    type: ClassVar[str] = "release"
    run: str
    cut: int
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Open:
    """Barrier runs: what waits here at this cut may start (all of its inputs have arrived)."""

    type: ClassVar[str] = "open"
    run: str
    cut: int
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Forget these items of a run, queued, running or held; all items when empty."""

    type: ClassVar[str] = "cancel"
    run: str
    items: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Evict:
    """Remove these blobs from the disk cache, as far as no partition uses them."""

    type: ClassVar[str] = "evict"
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    type: ClassVar[str] = "report"


@dataclass(frozen=True, slots=True)
class Ping:
    type: ClassVar[str] = "ping"
    nonce: str


@dataclass(frozen=True, slots=True)
class Profile:
    type: ClassVar[str] = "profile"
    partition: PartitionId


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Events of `boot` up to and including `seq` are known; they need not be repeated."""

    type: ClassVar[str] = "acknowledge"
    boot: str
    seq: int


Command = Send | Release | Open | Cancel | Evict | Report | Ping | Profile | Acknowledge


@dataclass(frozen=True, slots=True)
class CommandBatch:
    """`number` rises with each batch for a device within a generation: one that comes again, from
    the broker or from whoever has kept it, is known by it. 0: not numbered."""

    generation: int
    commands: tuple[Command, ...]
    number: int = 0

    @property
    def stamp(self) -> tuple[int, int]:
        return (self.generation, self.number)
