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
HOPED = 1.2  # times the bound, where no plan is known yet that says what to aim at


@dataclass(frozen=True, slots=True)
class Rules:
    """`counts`: devices of each kind. A plan has `least` to `most` ranges."""

    counts: tuple[int, ...]
    least: int
    most: int

    @property
    def limited(self) -> bool:
        """Whether the number of ranges needs a price."""
        return self.least > 1 or self.most < sum(self.counts)


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

    def changed(self, used: Sequence[int], ranges: int, rules: Rules, step: float) -> Prices:
        kinds = tuple(
            max(0.0, price + step * (uses - count))
            for price, uses, count in zip(self.kinds, used, rules.counts, strict=True)
        )
        return Prices(kinds, self.any + step * _beyond(ranges, self.any, rules))


@dataclass(frozen=True, slots=True)
class Bound:
    """No plan that keeps the rules takes less than `fill_s` for one item. `rests`: the soonest
    way from each cut to the end, with its prices. `reached`: a plan takes just this."""

    fill_s: float
    prices: Prices
    rests: tuple[float, ...]
    reached: bool = False


IMPOSSIBLE = Bound(math.inf, Prices(()), ())


def bound_of(
    rows: Rows, rules: Rules, prices: Prices, known: Incumbent, low_s: float = 0.0
) -> tuple[Bound, Rows]:
    """The highest bound after some changes of prices, or the first that shows that no plan whose
    pace is above `low_s` is better than the one known; and the options that such a plan can use.
    Tells the plans that it comes across."""
    best, share = IMPOSSIBLE, 1.0
    for step in range(STEPS):
        known.steps += size(rows)
        rests, path = shortest(rows, prices)
        if not path:
            return IMPOSSIBLE, rows
        used = _uses(path, len(rules.counts))
        excess, keeps = _excess(used, len(path), prices, rules), _keeps(used, len(path), rules)
        if keeps:
            known.note(path)
        fill_s, enough_s = rests[0] - prices.paid(rules), known.enough_s(low_s)
        if best is IMPOSSIBLE or fill_s > best.fill_s:
            best = Bound(fill_s, prices, rests, keeps and not excess)
        else:
            share *= SHORTER
        if not excess or fill_s >= enough_s:
            break
        if step in SIFTED_AT:
            rows = _sifted(rows, rules, best, enough_s)
        aim_s = enough_s if enough_s < math.inf else HOPED * fill_s + 1e-9
        prices = prices.changed(used, len(path), rules, share * (aim_s - fill_s) / excess)
    return best, _sifted(rows, rules, best, known.enough_s(low_s))


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


def _uses(path: Path, kinds: int) -> list[int]:
    used = [0] * kinds
    for option in path:
        used[option[3]] += 1
    return used


def _keeps(used: Sequence[int], ranges: int, rules: Rules) -> bool:
    enough = all(uses <= count for uses, count in zip(used, rules.counts, strict=True))
    return enough and rules.least <= ranges <= rules.most


def _beyond(ranges: int, price: float, rules: Rules) -> int:
    """How many ranges there are too many, or (negative) too few; where a price shows that one of
    the two limits holds, how far they are from it."""
    if price > 0 or ranges > rules.most:
        return ranges - rules.most
    if price < 0 or ranges < rules.least:
        return ranges - rules.least
    return 0


def _excess(used: Sequence[int], ranges: int, prices: Prices, rules: Rules) -> float:
    """The square of the subgradient: 0 if the prices are the best there are."""
    of_kinds = sum(
        (uses - count) ** 2
        for price, uses, count in zip(prices.kinds, used, rules.counts, strict=True)
        if uses > count or (price > 0 and uses < count)
    )
    return float(of_kinds + _beyond(ranges, prices.any, rules) ** 2)
