"""Where to cut: pure arithmetic over the trunk, as numbers.

Each node has a cost and weights; each place between two nodes has a price in bytes, or cannot
be cut. `choose` minimises, over all ways to cut, the sum of: how far each segment is from its
share of the compute, how far it is above the limit on weights, and how many bytes cross. Exact,
by dynamic programming: n places cost n² steps, so a very long trunk is thinned first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.segmentation.options import DEFAULT_SEGMENTS, MIN_SEGMENT_NBYTES

OVERWEIGHT_PRICE = 1000.0  # of too many bytes, and again per limit's worth: above all else
BOUNDARY_PRICE = 0.5  # of a boundary as large as those that this model offers all along
EPILOGUE_PRICE = 0.02  # of parting light nodes from the heavy one before, which runtimes fuse
LIGHT_SHARE = 0.01  # a node with less than this part of a segment's compute is light
BOUNDARY_NOISE_NBYTES = 128 << 10  # 20 ms at 50 Mbit/s: fewer bytes hardly matter
MAX_PLACES = 4000  # time grows with its square: 0.2 s here
SMALL_COST = 10_000_000.0  # multiply-adds too few to be worth a segment


@dataclass(frozen=True, slots=True)
class TrunkCosts:
    """The trunk as numbers: per node its cost and the bytes of weights that it is first to use;
    per place i (before node i, 1 <= i < n) the bytes that cross there, infinite if nothing may."""

    costs: tuple[float, ...]
    weights: tuple[int, ...]
    crossing: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.costs)

    @property
    def places(self) -> tuple[int, ...]:
        """Where a cut is allowed."""
        return tuple(i for i in range(1, len(self)) if math.isfinite(self.crossing[i]))


def choose(
    trunk: TrunkCosts, max_segment_nbytes: int, segments: int | None = None
) -> tuple[int, ...]:
    """The places to cut, ascending; `segments` - 1 of them if that number is asked for.

    Fewer if the trunk has fewer places.
    """
    places = _thinned(trunk, MAX_PLACES)
    if segments is not None:
        return _exactly(trunk, places, max_segment_nbytes, min(segments, len(places) + 1))
    target = target_segments(trunk, max_segment_nbytes)
    return _freely(trunk, places, max_segment_nbytes, target)


def _thinned(trunk: TrunkCosts, most: int) -> tuple[int, ...]:
    """At most `most` places: of neighbours, the one that the fewest bytes cross."""
    places = trunk.places
    if len(places) <= most:
        return places
    groups = np.array_split(np.array(places), most)
    return tuple(int(min(group, key=lambda place: trunk.crossing[place])) for group in groups)


def target_segments(trunk: TrunkCosts, max_segment_nbytes: int) -> int:
    """About how many segments to make: enough for the limit on weights, and for a fleet of some
    phones to share, but none that is too small to be worth its boundary."""
    total = sum(trunk.weights)
    least = math.ceil(total / max_segment_nbytes)
    by_cost = max(1, int(sum(trunk.costs) / SMALL_COST))
    by_weight = max(1, total // MIN_SEGMENT_NBYTES)
    return max(least, min(DEFAULT_SEGMENTS, max(by_cost, by_weight) if total else 1), 1)


class _Prices:
    """What segments cost: between any two stops (the places and both ends)."""

    def __init__(self, trunk: TrunkCosts, stops: Sequence[int], limit: int, target: int) -> None:
        at = list(stops)
        costs = np.concatenate([[0.0], np.cumsum(trunk.costs)])[at]
        self._limit = limit
        self._weights = np.concatenate([[0.0], np.cumsum(trunk.weights, dtype=np.float64)])[at]
        share = max(float(costs[-1]), 1.0) / target
        self._loads = costs / share
        self._ends = _boundary_prices(trunk, stops, target) + _epilogue_prices(trunk, stops, share)

    def until(self, end: int) -> NDArray[np.float64]:
        """Of the segments that end at stop `end`, by the stop where they begin: [end]."""
        load = self._loads[end] - self._loads[:end]
        over = np.maximum(0.0, (self._weights[end] - self._weights[:end]) / self._limit - 1.0)
        # Too little is worth less and less the emptier; too much only makes shares coarse.
        uneven = np.where(load < 1.0, (load - 1.0) ** 2, load - 1.0)
        prices = uneven + OVERWEIGHT_PRICE * (over + (over > 0)) + self._ends[end]
        return np.asarray(prices, np.float64)


def _boundary_prices(trunk: TrunkCosts, stops: Sequence[int], target: int) -> NDArray[np.float64]:
    """Of ending a segment at each stop; the last end has no price."""
    inner = np.array([trunk.crossing[stop] for stop in stops[1:-1]])
    prices = np.zeros(len(stops))
    if inner.size:
        prices[1:-1] = BOUNDARY_PRICE * inner / _typical_boundary(trunk, stops, target)
    return prices


def _typical_boundary(trunk: TrunkCosts, stops: Sequence[int], target: int) -> float:
    """Bytes of a boundary that is small where it lies: the lowest eighth, over stretches of
    equal compute, of the least that crosses in each."""
    done = np.cumsum(trunk.costs)
    least: dict[int, float] = {}
    for stop in stops[1:-1]:
        part = int(target * done[stop - 1] / max(float(done[-1]), 1.0))
        least[part] = min(least.get(part, math.inf), trunk.crossing[stop])
    low = float(np.quantile(list(least.values()), 0.125))
    return max(low, float(BOUNDARY_NOISE_NBYTES))


def _epilogue_prices(trunk: TrunkCosts, stops: Sequence[int], share: float) -> NDArray[np.float64]:
    """Of ending a segment before a light node, such as the normalisation after a sum."""
    light = [trunk.costs[stop] < LIGHT_SHARE * share for stop in stops[1:-1]]
    return EPILOGUE_PRICE * np.array([False, *light, False], np.float64)


def _freely(trunk: TrunkCosts, places: Sequence[int], limit: int, target: int) -> tuple[int, ...]:
    stops = [0, *places, len(trunk)]
    prices = _Prices(trunk, stops, limit, target)
    best = np.full(len(stops), np.inf)
    best[0] = 0.0
    before = np.zeros(len(stops), np.int64)
    for end in range(1, len(stops)):
        sums = best[:end] + prices.until(end)
        before[end] = np.argmin(sums)
        best[end] = sums[before[end]]
    return _trace(stops, lambda end, _: int(before[end]))


def _exactly(
    trunk: TrunkCosts, places: Sequence[int], limit: int, segments: int
) -> tuple[int, ...]:
    """As `_freely`, for each number of segments so far: row k is about k of them."""
    stops = [0, *places, len(trunk)]
    prices = _Prices(trunk, stops, limit, segments)
    best = np.full((segments + 1, len(stops)), np.inf)
    best[0, 0] = 0.0
    before = np.zeros((segments + 1, len(stops)), np.int64)
    for end in range(1, len(stops)):
        sums = best[:-1, :end] + prices.until(end)[None, :]
        before[1:, end] = np.argmin(sums, axis=1)
        best[1:, end] = np.min(sums, axis=1)
    return _trace(stops, lambda end, back: int(before[segments - back, end]))


def _trace(stops: Sequence[int], before: Callable[[int, int], int]) -> tuple[int, ...]:
    """The stops on the way back from the last one, without the two ends."""
    found: list[int] = []
    end, back = len(stops) - 1, 0
    while (end := before(end, back)) > 0:
        found.append(stops[end])
        back += 1
    return tuple(reversed(found))
