"""Builds plans range by range from the first cut on, and drops those that cannot be good enough.

Label setting: at each cut, of all beginnings that used the same devices the soonest is kept, a
label. Its bound is what it took and what the rest takes at least, by the prices that `prices`
found. Where there are more labels than may go on, those with the lowest bounds do, and what is
found is no longer proof that there is nothing better.
"""

from __future__ import annotations

import math
from heapq import nsmallest
from itertools import accumulate

from orchestrator.planner.incumbent import Incumbent
from orchestrator.planner.options import Option, Path, Rows
from orchestrator.planner.prices import Bound, Rules

_Trail = tuple["_Trail", Option] | None
_Label = tuple[float, int, float, int, _Trail]  # bound, devices used, fill_s, ranges, the way here


class Labels:
    """`width`: labels that go on from each cut. A plan is of interest if it is better than the
    one known, and its pace above `low_s`."""

    def __init__(
        self, rows: Rows, rules: Rules, bound: Bound, known: Incumbent, low_s: float, width: int
    ) -> None:
        self._rows, self._rules, self._bound = rows, rules, bound
        self._known, self._low_s, self._width = known, low_s, width
        self._costs = bound.prices.costs
        # Devices used are the bits of one number: a field for each kind, filled from its low end.
        starts = [0, *accumulate(rules.counts)][:-1]
        self._lows = [1 << start for start in starts]
        self._fields = [
            ((1 << n) - 1) << start for n, start in zip(rules.counts, starts, strict=True)
        ]
        self._at: list[dict[int, _Label]] = [{} for _ in rows]
        self._least_s = math.inf
        self._proof = True

    def least_fill_s(self) -> float:
        """What no plan of interest is below. Tells the plans that it finds."""
        self._at[0][0] = (self._bound.fill_s, 0, 0.0, 0, None)
        for cut in range(len(self._rows)):
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
        rests, costs, fields, lows = self._bound.rests, self._costs, self._fields, self._lows
        so_far_s, enough_s = bound_s - rests[cut], self._enough_s()
        self._known.steps += len(self._rows[cut])
        for option in self._rows[cut]:
            end, option_s, _, kind, _ = option
            taken = used & fields[kind]
            bound_s = so_far_s + option_s + costs[kind] + rests[end]
            if bound_s >= enough_s or taken == fields[kind] or not self._counts(ranges + 1, end):
                continue
            if end == len(self._rows):
                self._end(fill_s + option_s, (trail, option))
                continue
            after = used | (taken + lows[kind])
            other = self._at[end].get(after)
            if other is None or bound_s < other[0]:
                grown = (bound_s, after, fill_s + option_s, ranges + 1, (trail, option))
                self._at[end][after] = grown

    def _counts(self, ranges: int, end: int) -> bool:
        """Whether so many ranges up to a cut leave room for as many as there must be."""
        left = len(self._rows) - end
        if left == 0:
            return self._rules.least <= ranges <= self._rules.most
        return ranges < self._rules.most and ranges + left >= self._rules.least

    def _end(self, fill_s: float, trail: _Trail) -> None:
        self._least_s = min(self._least_s, fill_s)
        self._known.note(_path(trail))


def _path(trail: _Trail) -> Path:
    options = []
    while trail is not None:
        trail, option = trail
        options.append(option)
    return tuple(reversed(options))
