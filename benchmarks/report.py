"""What a run of the benchmarks found, written anew after each subject: JSON, pictures, a page."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bench import Outcome, Picture
from benchmarks.page import page
from benchmarks.row import Row


@dataclass(slots=True)
class Report:
    """`machine` as `benchmarks.machine` describes it."""

    machine: dict[str, Any]
    model: str
    quick: bool
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
            shown = self._shown(pictures, text) if pictures is not None else {}
            whole = page(self.machine, self.model, self.quick, self.rows, shown)
            text.write_text(whole, encoding="utf-8")

    def _shown(self, pictures: Path, text: Path) -> dict[str, list[str]]:
        """Where the page finds them."""
        folder = Path(os.path.relpath(pictures.absolute(), text.absolute().parent)).as_posix()
        return {
            subject: [f"{folder}/{each.name}" for each in drawn]
            for subject, drawn in self.pictures.items()
        }
