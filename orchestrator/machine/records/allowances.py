"""How often each of many may do something: so many at once, and so many a second after that.

Kept is only when each may do all of it at once again, which is soon: whoever did nothing for a
while costs nothing, and needs no clearing away by anybody.
"""

from __future__ import annotations

from collections import OrderedDict

ROUNDING_S = 1e-6
SWEPT_COUNT = 2  # of those that are let go with each one that is noted: more than come


class Allowances:
    """`burst` at once, `per_s` in the long run, for each name. Seconds of one monotonic clock."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._each_s = 1.0 / per_s
        self._most_s = (burst - 1.0) * self._each_s
        # When all is allowed again; who came last is last.
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def wait_s(self, name: str, now: float) -> float:
        """How long until it may; 0 if it may now."""
        wait_s = self._full_at.get(name, now) - self._most_s - now
        return wait_s if wait_s > ROUNDING_S else 0.0

    def spend(self, name: str, now: float, count: float = 1.0) -> None:
        """It does it now; what counts for more than is left is a debt, of one `burst` at most."""
        full_at = max(now, self._full_at.pop(name, now)) + count * self._each_s
        self._full_at[name] = min(full_at, now + 2.0 * self._most_s + self._each_s)
        self._sweep(now)

    def _sweep(self, now: float) -> None:
        for _ in range(SWEPT_COUNT):
            name = next(iter(self._full_at))
            if self._full_at[name] > now:
                return
            del self._full_at[name]
            if not self._full_at:
                return
