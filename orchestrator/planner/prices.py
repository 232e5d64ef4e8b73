"""Prices for devices, so that the soonest way through a model uses each of them only once.

Lagrangian relaxation. Without the rule that a device serves one range, the soonest way from the
first cut to the last is a shortest path, found in one pass; but it takes the fastest device again
and again. So each use of a device costs a price, raised where it is used too often and lowered
where it is not used (a subgradient step), until few ways are left that any plan could beat: the
shortest path less all prices is a bound that no plan is below, whatever the prices. A price per
range does the same for the number of ranges, if that is limited.
Finds bounds, and at times a plan. Which paces are asked about is `search`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.planner.incumbent import Incumbent
from orchestrator.planner.options import Option, Path, Rows, size

STEPS = 14  # price changes per question: most of what a bound can gain is there after ten
SIFTED_AT = (0, 4)  # steps after which hopeless options are dropped, which costs as much as one
SHORTER = 0.7  # steps, after one that gained nothing
HOPED = 0.3  # of what the path takes is aimed at in addition, where no plan is known yet


@dataclass(frozen=True, slots=True)
class Rules:
    """`counts`: devices of each kind. A plan has `least` to `most` ranges."""

    counts: tuple[int, ...]
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds for one more range: on a device of each kind, and on any. The last is negative
    where a plan needs more ranges than pay."""

    kinds: tuple[float, ...]
    any: float = 0.0

    @property
    def costs(self) -> list[float]:
        """For each kind, of one more range on one of its devices."""
        return [price + self.any for price in self.kinds]

    def paid(self, rules: Rules) -> float:
        """What a plan that uses all that it may pays."""
        of_ranges = self.any * (rules.most if self.any > 0 else rules.least)
        return of_ranges + sum(
            price * count for price, count in zip(self.kinds, rules.counts, strict=True) if price
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """No plan that keeps the rules takes less than `fill_s` for one item. `rests`: the soonest way
    from each cut to the end with these prices; `path`: the one from the first cut, and whether it
    `keeps` the rules; `excess`: what it uses too much or too little."""

    fill_s: float
    prices: Prices
    rests: tuple[float, ...]
    path: Path
    keeps: bool
    excess: tuple[int, ...]

    @property
    def reached(self) -> bool:
        """The path is a plan and takes just this: none is better."""
        return self.keeps and not any(self.excess)


IMPOSSIBLE = Bound(math.inf, Prices(()), (), (), False, ())


def bound_of(
    rows: Rows, rules: Rules, starts: Sequence[Prices], known: Incumbent, low_s: float = 0.0
) -> tuple[Bound, Rows]:
    """The highest bound after some changes of prices, or the first that shows that no plan whose
    pace is above `low_s` is better than the one known; and the options that such a plan can use.
    Tells the plans that it comes across. Goes on from the best of `starts`: prices that were found
    for other paces may be far off."""
    best, share = IMPOSSIBLE, 1.0
    upcoming = list(starts)
    for step in range(STEPS):
        known.steps += size(rows)
        bound = _bound(rows, rules, upcoming.pop())
        if bound is IMPOSSIBLE:
            return IMPOSSIBLE, rows
        if bound.keeps:
            known.note(bound.path)
        if best is IMPOSSIBLE or bound.fill_s > best.fill_s:
            best = bound
        elif step >= len(starts):
            share *= SHORTER
        enough_s = known.enough_s(low_s)
        if bound.reached or bound.fill_s >= enough_s:
            break
        if step in SIFTED_AT:
            rows = _sifted(rows, rules, best, enough_s)
        upcoming = upcoming or [_changed(best, rules, enough_s, share)]
    return best, _sifted(rows, rules, best, known.enough_s(low_s))


def _bound(rows: Rows, rules: Rules, prices: Prices) -> Bound:
    rests, path = shortest(rows, prices)
    if not path:
        return IMPOSSIBLE
    used = [0] * len(rules.counts)
    for option in path:
        used[option[3]] += 1
    return Bound(
        rests[0] - prices.paid(rules),
        prices,
        rests,
        path,
        _keeps(used, len(path), rules),
        _excess(used, len(path), prices, rules),
    )


def _changed(bound: Bound, rules: Rules, enough_s: float, share: float) -> Prices:
    """A step from the best prices so far towards a bound that is enough."""
    gap_s = enough_s - bound.fill_s
    if enough_s == math.inf:
        gap_s = HOPED * sum(option[1] for option in bound.path)
    step = share * gap_s / sum(each * each for each in bound.excess)
    *of_kinds, of_any = bound.excess
    kinds = [price + step * each for price, each in zip(bound.prices.kinds, of_kinds, strict=True)]
    return Prices(tuple(max(0.0, price) for price in kinds), bound.prices.any + step * of_any)


def _sifted(rows: Rows, rules: Rules, bound: Bound, enough_s: float) -> Rows:
    """Without the options that no plan better than `enough_s` can use: the shortest way there, the
    option and the shortest way on take as much or more, with the bound's prices."""
    if enough_s == math.inf:
        return rows
    costs, rests = bound.prices.costs, bound.rests
    limit_s = enough_s + bound.prices.paid(rules)
    before = [0.0] + [math.inf] * len(rows)
    kept: Rows = []
    for cut, row in enumerate(rows):
        so_far_s = before[cut]
        some: list[Option] = []
        for option in row:
            end = option[0]
            seconds = so_far_s + option[1] + costs[option[3]]
            if seconds + rests[end] < limit_s:
                some.append(option)
                if seconds < before[end]:
                    before[end] = seconds
        kept.append(some)
    return kept


def shortest(rows: Rows, prices: Prices) -> tuple[tuple[float, ...], Path]:
    """The soonest way from each cut to the end; the one from the first, empty if there is none."""
    costs, end = prices.costs, len(rows)
    rests = [math.inf] * end + [0.0]
    nexts: list[Option | None] = [None] * end
    for cut in range(end - 1, -1, -1):
        least, chosen = math.inf, None
        for option in rows[cut]:
            seconds = option[1] + costs[option[3]] + rests[option[0]]
            if seconds < least:
                least, chosen = seconds, option
        rests[cut], nexts[cut] = least, chosen
    return tuple(rests), _followed(nexts)


def _followed(nexts: Sequence[Option | None]) -> Path:
    path: list[Option] = []
    cut = 0
    while cut < len(nexts):
        option = nexts[cut]
        if option is None:
            return ()
        path.append(option)
        cut = option[0]
    return tuple(path)


def _keeps(used: Sequence[int], ranges: int, rules: Rules) -> bool:
    enough = all(uses <= count for uses, count in zip(used, rules.counts, strict=True))
    return enough and rules.least <= ranges <= rules.most


def _excess(used: Sequence[int], ranges: int, prices: Prices, rules: Rules) -> tuple[int, ...]:
    """The subgradient: for each kind, and for the number of ranges, how many there are too many,
    or (negative) too few for a price that is above nothing."""
    of_kinds = (
        uses - count if uses > count or price > 0 else 0
        for price, uses, count in zip(prices.kinds, used, rules.counts, strict=True)
    )
    return (*of_kinds, _beyond(ranges, prices.any, rules))


def _beyond(ranges: int, price: float, rules: Rules) -> int:
    """From the limit that is broken, or that the price shows to hold."""
    if price > 0 or ranges > rules.most:
        return ranges - rules.most
    if price < 0 or ranges < rules.least:
        return ranges - rules.least
    return 0
