"""Figures of another run, for a page of several: some subjects need a machine for themselves, or
another model.

Read as `Report` wrote them. A row keeps what it said; what made it is not run again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.row import Rival, Row, Target
from benchmarks.spread import Spread
from wire.errors import UserError


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """`machine` as `benchmarks.machine` described it then."""

    machine: Mapping[str, Any]
    model: str
    rows: tuple[Row, ...]
    pictures: Mapping[str, Sequence[str]]  # names, by subject

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.subject for row in self.rows))


def earlier_run(path: Path) -> EarlierRun:
    """Raises `UserError` if the file is no report."""
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(map(_row, plain["rows"]))
        return EarlierRun(plain["machine"], plain["model"], rows, plain.get("pictures", {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no report of python -m benchmarks --json: {error}") from None


def _row(plain: Mapping[str, Any]) -> Row:
    value, spread = plain["value"], plain["spread"]
    wanted, rival = plain["target"], plain["rival"]
    return Row(
        name=plain["name"],
        says=plain["says"],
        value=value,
        unit=plain["unit"],
        target=None if wanted is None else Target(plain["target_kind"], wanted),
        rival=None if rival is None else Rival(plain["rival_name"], rival),
        spread=None if spread is None else Spread(median=value, **spread),
        note=plain["note"],
    )
