"""Finds the ranges and devices by which a batch is through soonest, each device with one range.

Dynamic programming over cuts and the devices used so far. What a path took is two numbers, the
sum of its stages and its slowest step, and neither decides alone, so each state keeps every path
that no other beats in both. Exact for few devices, or many that are alike. For more, devices are
gone through in one order, each taking a range or none, in several orders that are then improved
by exchanging devices. Paths that cannot beat the best one known are given up at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from orchestrator.planner.offers import Offer, Room, SegmentRange
from orchestrator.planner.stages import Stage, Work, stage_of
from wire.manifest import Manifest

EXACT_LIMIT = 200_000  # steps from state to state, some 0.5 s of Python before any is given up
STEPS_LIMIT = 200_000  # then the orders of many unlike devices are improved no further
ALIKE = 0.01  # so much slower for fewer ranges is as good: every range is a device's battery

_Used = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Option:
    last: int
    streamed: bool
    stage: Stage


@dataclass(frozen=True, slots=True)
class _Path:
    """From the input to some cut. `kind` served the last range, after `before`."""

    fill_s: float
    pace_s: float
    count: int
    first: int = 0
    option: _Option | None = None
    kind: int = -1
    before: _Path | None = None

    def grown(self, first: int, option: _Option, kind: int) -> _Path:
        return _Path(
            self.fill_s + option.stage.fill_s,
            max(self.pace_s, option.stage.pace_s),
            self.count + 1,
            first,
            option,
            kind,
            self,
        )

    def steps(self) -> list[_Path]:
        """In the order of the ranges."""
        steps: list[_Path] = []
        path: _Path | None = self
        while path is not None and path.option is not None:
            steps.append(path)
            path = path.before
        return steps[::-1]


START = _Path(0.0, 0.0, 0)


class PartitionSearch:
    """`wanted`: so many ranges, or None for the number by which the batch is through soonest."""

    def __init__(
        self, manifest: Manifest, work: Work, fleet: Sequence[Offer], wanted: int | None
    ) -> None:
        self._work, self._wanted = work, wanted
        self._end = len(manifest.segments)
        self._weights = [segment.weight_nbytes for segment in manifest.segments]
        self._kinds: dict[tuple[float, ...], int] = {}
        self._offers: list[Offer] = []
        self._names: list[list[str]] = []
        for offer in sorted(fleet, key=lambda each: each.device):
            self._add(offer)
        self._rooms = {offer.device: Room(manifest, offer) for offer in self._offers}
        self._table = [
            [tuple(self._options(offer, first)) for first in range(self._end)]
            for offer in self._offers
        ]
        self._rests = [self._rest(cut) for cut in range(self._end + 1)]
        self._limit_s = math.inf
        self._steps = 0

    def best(self) -> tuple[SegmentRange, ...] | None:
        """None if no choice of ranges fits the devices, one each."""
        found = [path for order in self._orders() for path in self._in_order(order)]
        if not self._is_small():
            found = self._exchanged(found)
        else:
            self._note(found)
            found += self._exactly()
        best = self._choose(found)
        return None if best is None else self._ranges(best)

    # --- what there is ------------------------------------------------------------------------

    def _add(self, offer: Offer) -> None:
        likeness = (
            offer.budget_nbytes,
            offer.hold_nbytes,
            offer.disk_nbytes,
            offer.max_opset,
            offer.cost_per_s,
            offer.link_nbytes_per_s,
            offer.rtt_s,
            offer.hop_s,
            offer.told_nbytes,
        )
        kind = self._kinds.setdefault(likeness, len(self._offers))
        if kind == len(self._offers):
            self._offers.append(offer)
            self._names.append([])
        self._names[kind].append(offer.device)

    def _options(self, offer: Offer, first: int) -> Iterator[_Option]:
        for last, streamed in self._rooms[offer.device].ranges(first):
            weights = sum(self._weights[first : last + 1]) if streamed else None
            yield _Option(last, streamed, stage_of(self._work, offer, first, last, weights))

    def _rest(self, cut: int) -> Stage:
        """What no way from this cut to the end can do without."""
        fastest = max(max(offer.cost_per_s for offer in self._offers), 1e-9)
        if cut == self._end:
            return Stage(0.0, 0.0)
        slowest = max(self._work.costs[cut:]) / fastest
        return Stage(self._work.cost(cut, self._end - 1) / fastest, slowest)

    # --- judging paths ------------------------------------------------------------------------

    def _batch_s(self, path: _Path) -> float:
        return path.fill_s + (self._work.items - 1) * path.pace_s

    def _is_hopeless(self, path: _Path, cut: int, speed_left: float) -> bool:
        """Even if the devices that are left share the rest as they never could. `speed_left` is
        of all of them together."""
        rest = self._rests[cut]
        shared_s = self._work.cost(cut, self._end - 1) / max(speed_left, 1e-9)
        pace_s = max(path.pace_s, rest.pace_s, shared_s)
        least_s = path.fill_s + rest.fill_s + (self._work.items - 1) * pace_s
        return least_s > self._limit_s * (1 + ALIKE)

    def _note(self, whole: Sequence[_Path]) -> None:
        """Paths to the end: nothing much slower than the best of them is of interest."""
        self._limit_s = min([self._limit_s, *map(self._batch_s, whole)])

    def _choose(self, whole: Sequence[_Path]) -> _Path | None:
        if not whole:
            return None
        limit_s = min(map(self._batch_s, whole)) * (1 + ALIKE)
        good = [path for path in whole if self._batch_s(path) <= limit_s]
        return min(good, key=lambda path: (path.count, self._batch_s(path)))

    def _may_grow(self, path: _Path) -> bool:
        return self._wanted is None or path.count < self._wanted

    def _may_end(self, path: _Path) -> bool:
        return self._wanted in (None, path.count)

    # --- exactly ------------------------------------------------------------------------------

    def _is_small(self) -> bool:
        states = math.prod(len(names) + 1 for names in self._names)
        return states * len(self._names) * self._end * self._end // 2 <= EXACT_LIMIT

    def _exactly(self) -> list[_Path]:
        reached: list[dict[_Used, list[_Path]]] = [{} for _ in range(self._end + 1)]
        reached[0][(0,) * len(self._offers)] = [START]
        for cut in range(self._end):
            for used, front in reached[cut].items():
                for kind, names in enumerate(self._names):
                    if used[kind] < len(names):
                        after = (*used[:kind], used[kind] + 1, *used[kind + 1 :])
                        self._grow(front, cut, kind, after, reached)
        fronts = reached[self._end].values()
        return [path for front in fronts for path in front if self._may_end(path)]

    def _grow(
        self,
        front: Sequence[_Path],
        cut: int,
        kind: int,
        after: _Used,
        reached: Sequence[dict[_Used, list[_Path]]],
    ) -> None:
        unused = (len(names) - count for names, count in zip(self._names, after, strict=True))
        left = sum(n * offer.cost_per_s for n, offer in zip(unused, self._offers, strict=True))
        for path in front:
            for option in self._table[kind][cut] if self._may_grow(path) else ():
                grown = path.grown(cut, option, kind)
                if not self._is_hopeless(grown, option.last + 1, left):
                    _keep(reached[option.last + 1].setdefault(after, []), grown)

    # --- in an order --------------------------------------------------------------------------

    def _orders(self) -> list[list[int]]:
        """Kinds, one entry per device: the fast first and last, the well connected, the large."""
        each = [kind for kind, names in enumerate(self._names) for _ in names]
        offers = self._offers
        return [
            sorted(each, key=lambda kind: -offers[kind].cost_per_s),
            sorted(each, key=lambda kind: offers[kind].cost_per_s),
            sorted(each, key=lambda kind: -offers[kind].link_nbytes_per_s),
            sorted(each, key=lambda kind: -offers[kind].budget_nbytes),
        ]

    def _in_order(self, order: Sequence[int]) -> list[_Path]:
        """The best ways in which each device takes the next range, or none."""
        layer: dict[tuple[int, int], list[_Path]] = {(0, 0): [START]}
        left = sum(self._offers[kind].cost_per_s for kind in order)
        for kind in order:
            left -= self._offers[kind].cost_per_s
            grown: dict[tuple[int, int], list[_Path]] = {at: [*f] for at, f in layer.items()}
            for (cut, count), front in layer.items():
                if cut < self._end and (self._wanted is None or count < self._wanted):
                    self._take(front, cut, count, kind, left, grown)
            layer = grown
        found = [path for (cut, _), f in layer.items() if cut == self._end for path in f]
        found = [path for path in found if self._may_end(path)]
        self._note(found)
        return found

    def _take(
        self,
        front: Sequence[_Path],
        cut: int,
        count: int,
        kind: int,
        left: float,
        grown: dict[tuple[int, int], list[_Path]],
    ) -> None:
        after = count + 1 if self._wanted is not None else 0
        self._steps += len(front) * len(self._table[kind][cut])
        for option in self._table[kind][cut]:
            for path in front:
                new = path.grown(cut, option, kind)
                if not self._is_hopeless(new, option.last + 1, left):
                    _keep(grown.setdefault((option.last + 1, after), []), new)

    def _exchanged(self, found: list[_Path]) -> list[_Path]:
        """From the best order on, two devices change places as long as that helps."""
        best = self._choose(found)
        if best is None:
            return []
        order = self._order_of(best)
        for one, other in combinations(range(len(order)), 2):
            if self._steps > STEPS_LIMIT:
                break
            tried = [*order]
            tried[one], tried[other] = tried[other], tried[one]
            better = self._choose([best, *self._in_order(tried)])
            if better is not None and better is not best:
                best, order = better, self._order_of(better)
        return [best]

    def _order_of(self, best: _Path) -> list[int]:
        """The devices of a path, then those that it leaves out."""
        used = [step.kind for step in best.steps()]
        rest = [kind for order in self._orders()[:1] for kind in order]
        for kind in used:
            rest.remove(kind)
        return [*used, *rest]

    def _ranges(self, best: _Path) -> tuple[SegmentRange, ...]:
        names = [list(each) for each in self._names]
        ranges = []
        for step in best.steps():
            if step.option is not None:
                name = names[step.kind].pop(0)
                ranges.append(
                    SegmentRange(step.first, step.option.last, step.option.streamed, name)
                )
        return tuple(ranges)


def _keep(front: list[_Path], path: _Path) -> None:
    """Paths of one state that none of the others beats in both numbers."""
    for other in front:
        if other.fill_s <= path.fill_s and other.pace_s <= path.pace_s:
            return
    front[:] = [
        other for other in front if other.fill_s < path.fill_s or other.pace_s < path.pace_s
    ]
    front.append(path)
