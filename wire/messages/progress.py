"""What is seen of a run: `runs/<r>`, and a row in the list of a user's runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RunStatus = Literal["accepted", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened to a run, so many seconds after it began."""

    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class RunProgress:
    """`runs/<r>`, retained with an expiry: what a watcher sees of a run. `attended`: a client of it
    is there. `happened`: the last few things that did, the newest last."""

    run: str
    model: str
    status: RunStatus
    exact: bool
    barrier: bool
    transport: str
    count: int | None
    stored: int
    admitted: int
    done: int
    failed: int
    elapsed_s: float
    reason: str | None = None
    attended: bool = True
    happened: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedRun:
    """`age_s`: since it was submitted. `kept`: outcomes that nobody has fetched yet."""

    progress: RunProgress
    age_s: float
    kept: int
