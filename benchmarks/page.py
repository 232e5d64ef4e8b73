"""The results as a page: docs/benchmarks.md is what this writes, and nobody edits it by hand.

How things are measured, and what stands in the way where a target is missed, is written in
docs/methodology.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from benchmarks.earlier import EarlierRun
from benchmarks.row import Row
from benchmarks.table import show, target_text

HEAD = """# Benchmarks

Written by `python -m benchmarks`; how it measures: [methodology.md](methodology.md).

{summary}

| | |
|---|---|
{machine}

Values are medians; *middle half* is where half of the {n} measurements lie. A rival was measured
in the same run, taking turns.
"""
COLUMNS = ("what", "value", "middle half", "n", "target", "", "rival")
VERDICTS = {True: "met", False: "**missed**", None: ""}


def page(
    machine: Mapping[str, Any],
    model: str,
    quick: bool,
    rows: Sequence[Row],
    pictures: Mapping[str, Sequence[str]],
    earlier: Sequence[EarlierRun] = (),
) -> str:
    """The whole page. `pictures`: by subject, paths of pictures from where the page will be;
    `earlier`: those that some of the rows are from."""
    taken = _machine(machine, model, earlier)
    text = HEAD.format(summary=_summary(rows, quick), machine=taken, n="*n*")
    parts = [text]
    for subject, group in groupby(rows, attrgetter("subject")):
        parts.append(f"## {subject.capitalize()}\n\n{_table(list(group))}\n")
        parts += [f"![{path.rpartition('/')[2]}]({path})\n" for path in pictures.get(subject, ())]
    return "\n".join(parts)


def _summary(rows: Sequence[Row], quick: bool) -> str:
    met, missed = (sum(row.met is verdict for row in rows) for verdict in (True, False))
    unmeasured = sum(row.value is None for row in rows)
    short = " A quick run: few rounds, so spreads are rough." if quick else ""
    lacking = f" Not measured, with the reason: {unmeasured}." if unmeasured else ""
    return (
        f"{len(rows)} rows; of those with a target {met} meet it, {missed} miss it.{lacking}{short}"
    )


def _machine(machine: Mapping[str, Any], model: str, earlier: Sequence[EarlierRun]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    facts = {
        "model": model,
        "processor": f"{machine['processor']}, {machine['cores']} cores, {machine['architecture']}",
        "memory": f"{machine['memory_nbytes'] / 1e9:.0f} GB",
        "system": f"{machine['system']}, Python {machine['python']}",
        "versions": versions,
        "commit": machine["commit"] or "unknown",
        "taken": _taken(machine),
    }
    for run in earlier:
        commit = run.machine["commit"] or "unknown"
        facts[", ".join(run.subjects)] = f"model {run.model}, {commit}, {_taken(run.machine)}"
    return "\n".join(f"| {name} | {fact} |" for name, fact in facts.items())


def _taken(machine: Mapping[str, Any]) -> str:
    load = ", ".join(f"{each:.1f}" for each in machine["load_average"])
    return f"{machine['taken']}; load average before: {load}"


def _table(rows: Sequence[Row]) -> str:
    lines = [" | ".join(COLUMNS), "|".join("---" for _ in COLUMNS)]
    lines += [" | ".join(_cells(row)) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    spread, rival = row.spread, row.rival
    several = spread is not None and spread.count > 1
    return (
        row.says.replace("|", "/") + (f" <br>*{row.note}*" if row.note else ""),
        "–" if row.value is None else f"{show(row.value)} {row.unit}".strip(),
        f"{show(spread.low)} to {show(spread.high)}" if spread and several else "",
        str(spread.count) if spread else "",
        target_text(row.target),
        VERDICTS[row.met],
        f"{rival.name}: {show(rival.value)}" if rival else "",
    )
