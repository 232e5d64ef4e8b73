"""What a run of the benchmarks found, written anew after each subject: JSON, pictures, a page."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.bench import Outcome, Picture
from benchmarks.earlier import EarlierRun
from benchmarks.page import page
from benchmarks.row import Row


@dataclass(slots=True)
class Report:
    """`machine` as `benchmarks.machine` describes it. `order` of the subjects; of those that
    `earlier` runs have, theirs are shown unless they were measured now."""

    machine: dict[str, Any]
    model: str
    quick: bool
    order: Sequence[str] = ()
    earlier: Sequence[EarlierRun] = ()
    rows: list[Row] = field(default_factory=list)
    pictures: dict[str, list[Picture]] = field(default_factory=dict)

    def add(self, subject: str, outcome: Outcome) -> None:
        self.rows += outcome.rows
        self.pictures[subject] = outcome.pictures

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "machine": self.machine,
            "model": self.model,
            "quick": self.quick,
            "rows": [row.plain() for row in self.rows],
            "pictures": {
                subject: [each.name for each in drawn] for subject, drawn in self.pictures.items()
            },
        }

    def write(self, figures: Path | None, pictures: Path | None, text: Path | None) -> None:
        """Into those that are not None. The page shows the pictures that were written."""
        if figures is not None:
            figures.write_text(json.dumps(self.plain(), indent=2) + "\n", encoding="utf-8")
        if pictures is not None:
            pictures.mkdir(exist_ok=True)
            for each in (each for drawn in self.pictures.values() for each in drawn):
                (pictures / each.name).write_text(each.text, encoding="utf-8")
        if text is not None:
            kept = self._kept()
            shown = self._shown(pictures, text, kept) if pictures is not None else {}
            rows = [*self.rows, *(row for run in kept for row in run.rows)]
            rows.sort(key=self._place)
            whole = page(self.machine, self.model, self.quick, rows, shown, kept)
            text.write_text(whole, encoding="utf-8")

    def _shown(
        self, pictures: Path, text: Path, kept: Sequence[EarlierRun]
    ) -> dict[str, list[str]]:
        """Where the page finds them; those of earlier runs as far as they are there."""
        folder = Path(os.path.relpath(pictures.absolute(), text.absolute().parent)).as_posix()
        names = {
            subject: [name for name in drawn if (pictures / name).is_file()]
            for run in kept
            for subject, drawn in run.pictures.items()
        }
        names |= {
            subject: [each.name for each in drawn] for subject, drawn in self.pictures.items()
        }
        return {subject: [f"{folder}/{name}" for name in drawn] for subject, drawn in names.items()}

    def _kept(self) -> list[EarlierRun]:
        """Of the earlier runs, what none measured later."""
        seen, kept = {row.subject for row in self.rows}, []
        for run in reversed(self.earlier):
            rows = tuple(row for row in run.rows if row.subject not in seen)
            seen |= {row.subject for row in rows}
            if rows:
                kept.insert(0, replace(run, rows=rows))
        return kept

    def _place(self, row: Row) -> int:
        return self.order.index(row.subject) if row.subject in self.order else len(self.order)
