"""All that kinds of devices could do in a plan: each range that each of them takes, in seconds.

An option is a plain tuple, since a search looks at some hundred thousand: the cut at which its
range ends, `fill_s` and `pace_s` of its stage, the number of its kind, and whether the range is
streamed. The cut at which it begins is where it is listed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter

from orchestrator.planner.kinds import Kind
from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Room
from orchestrator.planner.stages import Work, stage_seconds

Option = tuple[int, float, float, int, bool]
Rows = list[list[Option]]  # by the cut at which the ranges begin
Path = tuple[Option, ...]  # one after the other, from the first cut to the last


pace_of = itemgetter(2)


def rows_of(needs: Needs, work: Work, kinds: Sequence[Kind]) -> Rows:
    """Each row from the fastest pace to the slowest."""
    rows: Rows = [[] for _ in range(needs.count)]
    for number, kind in enumerate(kinds):
        room = Room(needs, kind.offer)
        for first, row in enumerate(rows):
            lasts = [(last, streamed) for last, streamed in room.ranges(first)]
            row += _options(needs, work, kind, first, lasts, number)
    return [sorted(row, key=pace_of) for row in rows]


def _options(
    needs: Needs, work: Work, kind: Kind, first: int, lasts: list[tuple[int, bool]], number: int
) -> list[Option]:
    weighed = [
        (last, needs.weight_nbytes(first, last) if streamed else None) for last, streamed in lasts
    ]
    seconds = stage_seconds(work, kind.offer, first, weighed)
    return [
        (last + 1, fill_s, pace_s, number, streamed)
        for (last, streamed), (fill_s, pace_s) in zip(lasts, seconds, strict=True)
    ]


def within(rows: Rows, pace_s: float) -> Rows:
    """The options that are no slower."""
    return [row[: bisect_right(row, pace_s, key=pace_of)] for row in rows]


def size(rows: Rows) -> int:
    return sum(map(len, rows))


def fastest(rows: Rows) -> float:
    return min((row[0][2] for row in rows if row), default=0.0)


def slowest(rows: Rows) -> float:
    return max((row[-1][2] for row in rows if row), default=0.0)


def slowest_below(rows: Rows, pace_s: float) -> float:
    """The slowest pace of any option that is faster than `pace_s`; 0 if there is none."""
    counts = (bisect_left(row, pace_s, key=pace_of) for row in rows)
    return max((row[n - 1][2] for row, n in zip(rows, counts, strict=True) if n), default=0.0)
