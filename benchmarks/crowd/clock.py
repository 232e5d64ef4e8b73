"""The crowd's own time: what is to happen, in order. It runs as fast as things are handled."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Clock:
    """`now` in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + seconds, next(self._order), act))

    @property
    def next_at(self) -> float:
        """When something is to happen; infinite if nothing is."""
        return self._queue[0][0] if self._queue else float("inf")

    def step(self) -> None:
        """The next of what is to happen."""
        at, _, act = heapq.heappop(self._queue)
        self.now = max(self.now, at)
        act()
