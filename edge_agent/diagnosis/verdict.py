"""What a check says: how things are, and what to do unless they are well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "advice", "fault"]
LEVELS: tuple[Level, ...] = ("ok", "advice", "fault")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Two sentences; `do` is empty where nothing is to do."""

    level: Level
    what: str
    do: str = ""


def ok(what: str) -> Verdict:
    return Verdict("ok", what)


def advice(what: str, do: str) -> Verdict:
    return Verdict("advice", what, do)


def fault(what: str, do: str) -> Verdict:
    return Verdict("fault", what, do)
