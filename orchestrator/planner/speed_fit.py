"""Tells fast devices from cheap segments: speeds and costs that explain what segments took.

What a segment takes on a device is its cost over the device's speed, and neither is known alone.
Pure arithmetic on seconds by device and segment; which devices are asked is `measured`'s choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

ROUNDS = 12  # of fitting speeds and costs to each other; most of it is there after three

Took = Mapping[str, Mapping[int, float]]  # seconds, by device and segment


@dataclass(frozen=True, slots=True)
class Fit:
    """Multiply-adds a second by device, and multiply-adds by segment."""

    speeds: Mapping[str, float]
    costs: tuple[float, ...]

    def speed(self, took: Mapping[int, float]) -> float:
        """Of a device that is not in the fit, by what its segments took: at least one."""
        return sum(self.costs[index] for index in took) / sum(took.values())


def fit(took: Took, estimated: Sequence[float]) -> Fit:
    """A segment that nobody has run keeps its estimate, to which all others are scaled."""
    groups = [_fitted(group, took, estimated) for group in _groups(took)]
    usual = _mean([speed for speeds, _ in groups for speed in speeds.values()])
    all_speeds: dict[str, float] = {}
    all_costs = list(estimated)
    for speeds, costs in groups:
        # Of devices that no segment connects, nobody can tell the fast from those whose
        # segments are cheaper than estimated: half of the difference is taken to be either.
        factor = math.sqrt(usual / _mean(list(speeds.values())))
        all_speeds.update({device: factor * speed for device, speed in speeds.items()})
        for index, cost in costs.items():
            all_costs[index] = factor * cost
    return Fit(all_speeds, tuple(all_costs))


def _groups(took: Took) -> list[set[str]]:
    """Devices that can be compared, since they ran the same segments or those of a third."""
    groups: list[tuple[set[str], set[int]]] = []
    for device, known in took.items():
        names, indices = {device}, set(known)
        for group in [each for each in groups if each[1] & indices]:
            groups.remove(group)
            names, indices = names | group[0], indices | group[1]
        groups.append((names, indices))
    return [names for names, _ in groups]


def _fitted(
    group: set[str], took: Took, estimated: Sequence[float]
) -> tuple[dict[str, float], dict[int, float]]:
    """Speeds by the costs, costs by these speeds, and again: a device that ran dear segments
    is not slow for it, as the others show. The sum of the costs stays that of the estimate."""
    mine = {device: took[device] for device in sorted(group)}
    costs = {index: estimated[index] for known in mine.values() for index in known}
    total = sum(costs.values())
    speeds: dict[str, float] = {}
    for _ in range(ROUNDS):
        speeds = {
            device: sum(costs[index] for index in known) / sum(known.values())
            for device, known in mine.items()
        }
        costs = {
            index: median(
                known[index] * speeds[device] for device, known in mine.items() if index in known
            )
            for index in costs
        }
        scale = total / sum(costs.values())
        costs = {index: scale * cost for index, cost in costs.items()}
        speeds = {device: scale * speed for device, speed in speeds.items()}
    return speeds, costs


def _mean(values: Sequence[float]) -> float:
    """The geometric one; 1 of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0
