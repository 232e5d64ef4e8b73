"""All rows as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.row import Row, Target

VERDICTS = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}
SIGNS = {"at most": "≤", "at least": "≥"}


def table(rows: Sequence[Row]) -> Table:
    """One line a row; the middle half of the measurements stands beside the median."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    made.add_column("what", overflow="fold", min_width=40)
    for heading in ("value", "middle half", "n", "target", "", "rival"):
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*_cells(row))
    return made


def _cells(row: Row) -> tuple[str, ...]:
    says = f"{row.says} [dim]({row.name})[/]" + (f"\n[yellow]{row.note}[/]" if row.note else "")
    spread = row.spread
    half = f"{show(spread.low)}–{show(spread.high)}" if spread and spread.count > 1 else ""
    rival = f"{row.rival.name}: {show(row.rival.value)}" if row.rival else ""
    return (
        says,
        "–" if row.value is None else f"{show(row.value)} {row.unit}".strip(),
        half,
        str(spread.count) if spread else "",
        target_text(row.target),
        VERDICTS[row.met],
        rival,
    )


def target_text(target: Target | None) -> str:
    """As in `≤ 3.00`; empty without a target."""
    return f"{SIGNS[target.kind]} {show(target.value)}" if target else ""


def show(value: float) -> str:
    """Three digits that count."""
    if value == 0 or not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    digits = 3 - len(str(int(abs(value)))) if abs(value) >= 1 else 3
    return f"{value:.{max(0, digits)}f}"
