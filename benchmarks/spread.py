"""A sample of measurements as its median, its middle half and its ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """`low` and `high` are the quartiles: half of all measurements lie between them."""

    median: float
    low: float
    high: float
    least: float
    most: float
    count: int

    def plain(self) -> dict[str, float | int]:
        """As JSON has it."""
        return {
            "low": self.low,
            "high": self.high,
            "least": self.least,
            "most": self.most,
            "count": self.count,
        }


def spread(values: Sequence[float]) -> Spread:
    """Of at least one finite value; `ValueError` otherwise."""
    if not values or not all(map(math.isfinite, values)):
        raise ValueError(f"no spread of {list(values)!r}")
    ordered = sorted(values)
    return Spread(
        median=median(ordered),
        low=_quantile(ordered, 0.25),
        high=_quantile(ordered, 0.75),
        least=ordered[0],
        most=ordered[-1],
        count=len(ordered),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between the two nearest values, as numpy's default."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)
