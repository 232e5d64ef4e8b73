"""Makes a plan better by small exchanges, as long as any of them helps.

A range goes to a device that the plan does not use, two ranges exchange their devices, or the cut
between two neighbours moves. Cheap, and finds what a search that was cut short has missed next to
its best plan. The number of ranges stays. Of plans that take equally long the one with the long
ranges first is taken, so that which of them a search comes across makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from orchestrator.planner.incumbent import EQUAL, Incumbent
from orchestrator.planner.options import Option, Path, Rows, within
from orchestrator.planner.prices import Rules

_Table = dict[tuple[int, int, int], Option]  # by first cut, last cut and kind
_Change = dict[int, tuple[int, int, int]]  # by position in the plan, what is served there instead


STEPS_LIMIT = 30_000  # exchanges that are tried, and options of plans that may be better


def improve(known: Incumbent, rows: Rows, rules: Rules) -> None:
    if not known.path:
        return
    rows = within(rows, known.pace_s(0.0))
    table = {(cut, each[0], each[3]): each for cut, row in enumerate(rows) for each in row}
    last_step = known.steps + len(table) + STEPS_LIMIT
    known.steps += len(table)
    better: Path = known.path
    while better:
        better = next(_better(known, table, rules, last_step), ())
        if better:
            known.note(better, instead=True)


def _better(known: Incumbent, table: _Table, rules: Rules, last_step: int) -> Iterator[Path]:
    path, order = known.path, _order(known.path)
    fill_s, limit_s = sum(option[1] for option in path), known.limit_s
    for change in _changes(path, rules):
        known.steps += 1
        if known.steps > last_step:
            return
        options = {at: option for at, served in change.items() if (option := table.get(served))}
        if len(options) < len(change):
            continue
        fill_after_s = fill_s + sum(each[1] - path[at][1] for at, each in options.items())
        pace_s = max(each[2] for each in options.values())
        if fill_after_s + known.more * pace_s > limit_s * (1 + 2 * EQUAL):
            continue
        changed = tuple(options.get(at, each) for at, each in enumerate(path))
        known.steps += len(path)
        seconds = known.batch_s(changed)
        if seconds < limit_s * (1 - EQUAL) or (
            seconds <= limit_s * (1 + EQUAL) and _order(changed) < order
        ):
            yield changed


def _order(path: Path) -> tuple[int, ...]:
    """Long ranges first, then kinds by name."""
    return (*(-option[0] for option in path), *(option[3] for option in path))


def _changes(path: Path, rules: Rules) -> Iterator[_Change]:
    starts = [0, *(option[0] for option in path)]
    spans = list(pairwise(starts))
    kinds = [option[3] for option in path]
    unused = [kind for kind, count in enumerate(rules.counts) if kinds.count(kind) < count]
    for at, span in enumerate(spans):
        for kind in unused:
            yield {at: (*span, kind)}
    for one, other in combinations(range(len(path)), 2):
        yield {one: (*spans[one], kinds[other]), other: (*spans[other], kinds[one])}
    for at, (first, last) in enumerate(zip(starts, starts[2:], strict=False)):
        for cut in range(first + 1, last):
            here, there = kinds[at], kinds[at + 1]
            yield {at: (first, cut, here), at + 1: (cut, last, there)}
            yield {at: (first, cut, there), at + 1: (cut, last, here)}
