"""Builds plans range by range from the first cut on, and drops those that cannot be good enough.

Label setting: at each cut, of all beginnings that used the same devices the soonest is kept, a
label. Its bound is what it took and what the rest takes at least, by the prices that `prices`
found. Where there are more labels than may go on, those with the lowest bounds do, and what is
found is no longer proof that there is nothing better.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from heapq import nsmallest
from itertools import accumulate

from orchestrator.planner.incumbent import Incumbent
from orchestrator.planner.options import Option, Path, Rows
from orchestrator.planner.prices import Bound, Rules

_Trail = tuple["_Trail", Option] | None
_Step = tuple[float, int, int, Option]  # what it adds to a bound, its kind, its end
_Label = tuple[float, int, float, int, _Trail]  # bound, devices used, fill_s, ranges, the way here


class Labels:
    """`width`: labels that go on from each cut. A plan is of interest if it is better than the
    one known, and its pace above `low_s`."""

    def __init__(
        self, rows: Rows, rules: Rules, bound: Bound, known: Incumbent, low_s: float, width: int
    ) -> None:
        self._rules, self._bound, self._end = rules, bound, len(rows)
        self._known, self._low_s, self._width = known, low_s, width
        # Devices used are the bits of one number: a field for each kind, filled from its low end.
        starts = [0, *accumulate(rules.counts)][:-1]
        self._lows = [1 << start for start in starts]
        self._fields = [
            ((1 << n) - 1) << start for n, start in zip(rules.counts, starts, strict=True)
        ]
        self._steps = [self._priced(row) for row in rows]
        self._at: list[dict[int, _Label]] = [{} for _ in rows]
        self._least_s = math.inf
        self._proof = True

    def _priced(self, row: Sequence[Option]) -> list[_Step]:
        """The most hopeful first, so that whoever goes through them can stop."""
        costs, rests = self._bound.prices.costs, self._bound.rests
        return sorted(
            (option[1] + costs[option[3]] + rests[option[0]], option[3], option[0], option)
            for option in row
        )

    def least_fill_s(self) -> float:
        """What no plan of interest is below. Tells the plans that it finds."""
        self._at[0][0] = (self._bound.fill_s, 0, 0.0, 0, None)
        for cut in range(self._end):
            for label in self._promising(cut):
                self._grow(cut, label)
            self._at[cut].clear()
        if not self._proof:
            return self._bound.fill_s
        return max(self._bound.fill_s, min(self._least_s, self._enough_s()))

    def _enough_s(self) -> float:
        return self._known.enough_s(self._low_s)

    def _promising(self, cut: int) -> list[_Label]:
        enough_s = self._enough_s()
        labels = [label for label in self._at[cut].values() if label[0] < enough_s]
        if len(labels) > self._width:
            self._proof = False
            return nsmallest(self._width, labels)
        return sorted(labels)

    def _grow(self, cut: int, label: _Label) -> None:
        """By each range that a device not yet used could serve next."""
        bound_s, used, fill_s, ranges, trail = label
        so_far_s = bound_s - self._bound.rests[cut]
        inner, whole = self._ends(ranges + 1)
        fields, lows, at, last = self._fields, self._lows, self._at, self._end
        steps = self._hopeful(cut, so_far_s)
        for priced_s, kind, end, option in steps:
            taken = used & fields[kind]
            if taken == fields[kind] or (end > inner and (end < last or not whole)):
                continue
            if end == last:
                self._finish(fill_s + option[1], (trail, option))
                continue
            after, bound_s = used | (taken + lows[kind]), so_far_s + priced_s
            other = at[end].get(after)
            if other is None or bound_s < other[0]:
                at[end][after] = (
                    bound_s,
                    after,
                    fill_s + option[1],
                    ranges + 1,
                    (trail, option),
                )

    def _hopeful(self, cut: int, so_far_s: float) -> list[_Step]:
        steps = self._steps[cut]
        steps = steps[: bisect_left(steps, (self._enough_s() - so_far_s,))]
        self._known.steps += len(steps)
        return steps

    def _ends(self, ranges: int) -> tuple[int, bool]:
        """With so many ranges, the last cut after which as many can follow as there must be; and
        whether they can be all."""
        least, most = self._rules.least, self._rules.most
        inner = self._end - max(1, least - ranges) if ranges < most else -1
        return inner, least <= ranges <= most

    def _finish(self, fill_s: float, trail: _Trail) -> None:
        self._least_s = min(self._least_s, fill_s)
        self._known.note(_path(trail))


def _path(trail: _Trail) -> Path:
    options = []
    while trail is not None:
        trail, option = trail
        options.append(option)
    return tuple(reversed(options))
