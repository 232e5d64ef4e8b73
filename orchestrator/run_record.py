"""A run as the journal keeps it: the machine asks for it to be kept, the journal replays it.

Decides nothing, and knows neither of the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.messages.requests import RunOptions


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a client asked for. `model` is the digest; `count` None while the client has not
    finished."""

    run: str
    party: str
    model_name: str
    model: str
    options: RunOptions
    count: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The first terminal outcome of an item; `kind` None is a result."""

    item: int
    kind: str | None = None
    reason: str = ""
    acknowledged: bool = False


@dataclass(frozen=True, slots=True)
class StoredRun(RunRecord):
    """A run as the journal has it. `inputs` are stored and not yet released. `age_s` since it was
    stored. `fault`: kind and reason, if it ended as a whole before its items did.
    `deaths`: items, with device and boot, that are proven to have ended there."""

    inputs: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    age_s: float
    fault: tuple[str, str] | None = None
    deaths: tuple[tuple[int, str, str], ...] = ()
