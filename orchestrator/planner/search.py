"""Finds the ranges and devices by which a batch is through soonest, each device with one range.

A batch takes the sum of all ranges for its first item, and the slowest pace for each further one.
So for a given limit to the pace the question is simpler: which plan is soonest for one item?
Lower limits have fewer ranges to choose from. `prices` answers with a bound, `labels` with plans.
The search asks along a ladder of paces from the fastest up, then between its rungs where the
bound leaves most hope, until no pace is left at which a plan could be better. Exact for few
devices, or many that are alike; for more it ends after a number of steps with the best plan seen,
which was within one percent of the best there is wherever that could be proved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush, nlargest

from orchestrator.planner.device_swaps import improve
from orchestrator.planner.incumbent import Incumbent
from orchestrator.planner.kinds import kinds_of
from orchestrator.planner.labels import Labels
from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Offer, SegmentRange
from orchestrator.planner.options import (
    Path,
    Rows,
    fastest,
    rows_of,
    size,
    slowest,
    slowest_below,
    within,
)
from orchestrator.planner.prices import IMPOSSIBLE, Prices, Rules, bound_of, shortest
from orchestrator.planner.shortlist import shortlist
from orchestrator.planner.stages import Work
from wire.manifest import Manifest

KINDS = 64  # of devices, that are looked at where nobody says how many
EXACT_STATES = 64  # sets of devices, up to which all are told apart
STEPS_LIMIT = 240_000  # options looked at, some 50 ms of Python, when there are more
EXACT_STEPS_LIMIT = 1_000_000  # never seen to be needed
WIDTH = 64  # labels that go on from a cut
LABEL_STEPS = 30_000  # for one question, else fewer labels go on
ASKED = 12  # questions that are asked in any case …
BEYOND = 5  # … unless that takes so many times the steps
SLACK = 0.004  # a plan that is sooner by less is not worth the time to find it
RUNG = 1.5  # of the ladder, the next against the one before
NARROWER = 0.02  # by so much, and a new question pays
CLOSE = 0.03  # limits to the pace that differ by less are not told apart
ALIKE = 0.01  # so much slower for fewer ranges is as good: every range is a device's battery


@dataclass(order=True, slots=True)
class _Span:
    """Plans whose slowest pace is above `low_s` and at most `high_s`: no batch by one of them
    takes less than `least_s`. What is known of them was found for paces up to `asked_s`: `rows`,
    the options that are fast enough, `prices`, and `fill_s`, which no plan is below."""

    least_s: float
    low_s: float
    high_s: float = field(compare=False)
    asked_s: float = field(compare=False)
    fill_s: float = field(compare=False)
    prices: Prices = field(compare=False)
    rows: Rows = field(compare=False)


class PartitionSearch:
    """`wanted`: so many ranges, or None for the number by which the batch is through soonest.
    At most `most` kinds of devices are looked at, those with a `preferred` device before others."""

    def __init__(
        self,
        manifest: Manifest,
        work: Work,
        fleet: Sequence[Offer],
        wanted: int | None,
        most: int = KINDS,
        preferred: Collection[str] = (),
    ) -> None:
        self._work, self._wanted = work, wanted
        self._end = len(manifest.segments)
        needs = Needs(manifest)
        self._kinds = shortlist(kinds_of(fleet), needs, work, most, preferred)
        self._rows = rows_of(needs, work, self._kinds)
        self._counts = tuple(min(len(kind.devices), self._end) for kind in self._kinds)
        states = math.prod(count + 1 for count in self._counts)
        self._exact = states <= EXACT_STATES

    def best(self) -> tuple[SegmentRange, ...] | None:
        """None if no choice of ranges fits the devices, one each."""
        least, most = (1, self._end) if self._wanted is None else (self._wanted, self._wanted)
        steps = EXACT_STEPS_LIMIT if self._exact else STEPS_LIMIT
        known = self._swept(least, most, steps)
        path = self._fewer(known, steps // 2) if self._wanted is None else known.path
        return self._ranges(path) if path else None

    def _swept(self, least: int, most: int, steps: int, limit_s: float = math.inf) -> Incumbent:
        known = Incumbent(self._work.items - 1, limit_s, 0.0 if self._exact else SLACK)
        rules = Rules(self._counts, least, min(most, sum(self._counts)))
        width = EXACT_STATES if self._exact else WIDTH
        Sweep(self._rows, rules, known, self._low_s(rules.most), steps, width).run()
        return known

    def _low_s(self, most: int) -> float:
        """No pace is faster: so many of the fastest devices would share the whole model evenly."""
        speeds = (
            kind.offer.cost_per_s
            for kind, count in zip(self._kinds, self._counts, strict=True)
            for _ in range(count)
        )
        return self._work.before(self._end) / max(sum(nlargest(most, speeds)), 1e-9)

    def _fewer(self, known: Incumbent, steps: int) -> Path:
        """The plan with the fewest ranges that is about as good as the best."""
        limit_s = known.limit_s * (1 + ALIKE)
        path = known.fewest(limit_s)
        while len(path) > 1 and steps > 0:
            other = self._swept(1, len(path) - 1, steps, limit_s)
            if not other.path:
                break
            path, steps = other.path, steps - other.steps
        return path

    def _ranges(self, path: Path) -> tuple[SegmentRange, ...]:
        names = [iter(kind.devices) for kind in self._kinds]
        ranges, first = [], 0
        for end, _, _, kind, streamed in path:
            ranges.append(SegmentRange(first, end - 1, streamed, next(names[kind])))
            first = end
        return tuple(ranges)


class Sweep:
    """Goes through all paces at which there could be a better plan than `known`; none is faster
    than `low_s`."""

    def __init__(
        self, rows: Rows, rules: Rules, known: Incumbent, low_s: float, steps: int, width: int
    ) -> None:
        self._rows, self._rules, self._known = rows, rules, known
        self._low_s = max(low_s, fastest(rows)) * (1 - CLOSE)
        self._steps, self._width = steps, width
        self._spans: list[_Span] = []
        self._asked = 0
        self._free = self._latest = Prices((0.0,) * len(rules.counts))

    def run(self) -> None:
        self._climb()
        improve(self._known, self._rows, self._rules)
        while self._spans and self._goes_on():
            span = heappop(self._spans)
            if span.least_s >= self._known.enough_s(0.0):
                break
            self._narrow(span)
        improve(self._known, self._rows, self._rules)

    def _goes_on(self) -> bool:
        """Some questions are asked in any case, within reason."""
        steps = self._known.steps
        return steps < self._steps or (self._asked < ASKED and steps < BEYOND * self._steps)

    def _climb(self) -> None:
        """From the fastest pace up, as long as plans that are no faster may be better."""
        prices, low_s, top_s = self._free, self._low_s, slowest(self._rows)
        soonest_s = shortest(self._rows, prices)[0][0]
        while low_s < top_s and soonest_s < self._known.enough_s(low_s):
            high_s = min(top_s, low_s * RUNG) if self._known.more else top_s
            prices = self._ask(self._rows, low_s, high_s, prices)
            low_s = high_s

    def _ask(self, rows: Rows, low_s: float, high_s: float, prices: Prices) -> Prices:
        """What there is up to a pace; the prices with which it was found."""
        self._asked += 1
        rows = within(rows, high_s)
        starts = list(dict.fromkeys((self._free, self._latest, prices)))
        bound, rows = bound_of(rows, self._rules, starts, self._known, low_s)
        if bound is IMPOSSIBLE:
            return prices
        self._latest = bound.prices
        fill_s, enough_s = bound.fill_s, self._known.enough_s(low_s)
        if not bound.reached and fill_s < enough_s:
            width = max(1, min(self._width, LABEL_STEPS // (1 + size(rows))))
            fill_s = Labels(rows, self._rules, bound, self._known, low_s, width).least_fill_s()
        self._keep(_Span(0.0, low_s, high_s, high_s, fill_s, bound.prices, rows))
        return bound.prices

    def _keep(self, span: _Span) -> None:
        span.least_s = span.fill_s + self._known.more * span.low_s
        heappush(self._spans, span)

    def _narrow(self, span: _Span) -> None:
        """Without the paces at which no plan can be better; asks anew about what is left, or
        about the faster half of it."""
        high_s, limit_s = span.high_s, self._known.pace_s(span.fill_s)
        if limit_s <= high_s:
            high_s = slowest_below(span.rows, limit_s)
        if high_s <= span.low_s:
            return
        close = high_s - span.low_s < CLOSE * high_s
        if high_s < span.asked_s * (1 - NARROWER) or (close and high_s < span.asked_s):
            self._ask(span.rows, span.low_s, high_s, span.prices)
        elif not close:
            middle_s = (span.low_s + high_s) / 2
            self._keep(replace(span, low_s=middle_s, high_s=high_s))
            self._ask(span.rows, span.low_s, middle_s, span.prices)
