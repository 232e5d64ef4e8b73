"""The best plan that a search knows so far, and how much work went into it.

What a batch takes is two sums: `fill_s` of all ranges, and the slowest `pace_s` for each further
item. Keeps plans and compares them; finds none.
"""

from __future__ import annotations

import math

from orchestrator.planner.options import Path

EQUAL = 1e-12  # floating point: sums of the same numbers in another order


class Incumbent:
    """`more`: items after the first. `limit_s`: what a plan must be sooner than. `slack`: so much
    sooner, as a share, or it is not worth looking for."""

    def __init__(self, more: int, limit_s: float = math.inf, slack: float = 0.0) -> None:
        self.more, self.limit_s, self.slack = more, limit_s, slack
        self.path: Path = ()
        self.steps = 0  # options looked at, which is what a search costs
        self._by_ranges: dict[int, tuple[float, Path]] = {}

    def note(self, path: Path, *, instead: bool = False) -> None:
        """A plan; `instead`: to be preferred to the best one, since it is no slower."""
        seconds = self.batch_s(path)
        if seconds < self.limit_s or instead:
            self.limit_s, self.path = min(seconds, self.limit_s), path
        if seconds < self._by_ranges.get(len(path), (math.inf, ()))[0] or instead:
            self._by_ranges[len(path)] = (seconds, path)

    def enough_s(self, low_s: float) -> float:
        """A way through all ranges that takes no less cannot be part of a better plan, if some
        range's pace is above `low_s`."""
        return self.limit_s * (1 - self.slack) - self.more * low_s

    def pace_s(self, fill_s: float) -> float:
        """Plans that take `fill_s` or more for one item must be faster than this to be better."""
        return (self.limit_s * (1 - self.slack) - fill_s) / self.more if self.more else math.inf

    def fewest(self, limit_s: float) -> Path:
        """Of the plans seen that are no slower, the one with the fewest ranges."""
        limit_s *= 1 + 2 * EQUAL
        good = [(n, *known) for n, known in self._by_ranges.items() if known[0] <= limit_s]
        return min(good)[2] if good else ()

    def batch_s(self, path: Path) -> float:
        """Seconds until the last item is out."""
        fills = sum(option[1] for option in path)
        return fills + self.more * max(option[2] for option in path)
