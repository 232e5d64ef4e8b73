"""One figure: what was measured, against what, and whether it is as good as it was meant to be.

A row whose figure could not be taken here has no value and says why; it is never left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.spread import Spread, spread


@dataclass(frozen=True, slots=True)
class Target:
    """What a value is meant to be."""

    kind: Literal["at most", "at least"]
    value: float

    def met_by(self, value: float) -> bool:
        return value <= self.value if self.kind == "at most" else value >= self.value


@dataclass(frozen=True, slots=True)
class Rival:
    """What the value was measured against, in the same run and the same unit."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Row:
    """`name` begins with the subject, as in `latency.share_of_one_process`; `says` is for
    people. `value` None: `note` says why it was not measured."""

    name: str
    says: str
    value: float | None
    unit: str
    target: Target | None = None
    rival: Rival | None = None
    spread: Spread | None = None
    note: str = ""

    @property
    def subject(self) -> str:
        return self.name.partition(".")[0]

    @property
    def met(self) -> bool | None:
        """None without a target, or without a value."""
        if self.target is None or self.value is None:
            return None
        return self.target.met_by(self.value)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "target": self.target.value if self.target else None,
            "target_kind": self.target.kind if self.target else None,
            "met": self.met,
            "rival": self.rival.value if self.rival else None,
            "rival_name": self.rival.name if self.rival else None,
            "spread": self.spread.plain() if self.spread else None,
            "says": self.says,
            "note": self.note,
        }


def at_most(value: float) -> Target:
    return Target("at most", value)


def at_least(value: float) -> Target:
    return Target("at least", value)


def measured(
    name: str,
    says: str,
    values: Sequence[float],
    unit: str,
    target: Target | None = None,
    rival: Rival | None = None,
    note: str = "",
) -> Row:
    """The row of a sample: its median, with the spread."""
    found = spread(values)
    return Row(name, says, found.median, unit, target, rival, found, note)


def skipped(name: str, says: str, unit: str, why: str, target: Target | None = None) -> Row:
    return Row(name, says, None, unit, target, note=why)
