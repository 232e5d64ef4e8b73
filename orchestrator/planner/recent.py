"""The last few measurements of one thing, and which of them to believe.

The first is kept only until a second comes: a first run pages weights in and warms caches. One
that takes ten times as long, because a phone was busy, does not move the middle. Of seconds that
something took the quicker ones say more: whatever else a processor does only adds to them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

KEPT = 9
LATELY = 4


class Recent:
    def __init__(self, values: Iterable[float] = (), *, first: bool = True) -> None:
        """`first`: the next value is the first of all."""
        self._values: deque[float] = deque(values, maxlen=KEPT)
        self._doubtful = False
        self._first = first and not self._values
        self._middle: float | None = None

    def add(self, value: float) -> None:
        if self._doubtful:
            self._values.clear()
        self._doubtful, self._first = self._first, False
        self._values.append(value)
        self._middle = None

    @property
    def middle(self) -> float:
        """The median; raises ValueError if there is nothing yet."""
        if self._middle is None:
            if not self._values:
                raise ValueError("nothing was measured yet")
            self._middle = median(self._values)
        return self._middle

    @property
    def undisturbed(self) -> float:
        """Of seconds, the lower quartile, which of up to four is the least: with five agents on
        two cores every second task waited for its turn, and plans followed from which ones. As
        `middle` with nothing."""
        if not self._values:
            raise ValueError("nothing was measured yet")
        return sorted(self._values)[(len(self._values) - 1) // 4]

    @property
    def lately(self) -> float:
        """The least of the last few: what was no moment's hiccup. As `middle` with nothing."""
        return min(list(self._values)[-LATELY:])

    def scale(self, factor: float) -> None:
        """All became so much slower at once: older measurements count no more."""
        if self._values:
            middle = self.middle
            self._values.clear()
            self._values.append(middle * factor)
            self._middle, self._doubtful = None, False

    def __len__(self) -> int:
        return len(self._values)
