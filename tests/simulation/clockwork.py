"""Virtual time: what is to happen, in order; the same calls give the same order each time."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

EVENTS_LIMIT = 400_000  # in one world: whoever needs more goes round in circles


class Clockwork:
    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.after_each: list[Callable[[], None]] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(when, self.now), next(self._order), act))

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        self.at(self.now + seconds, act)

    def run_for(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; whether `until` came true within `seconds`."""
        end = self.now + seconds
        while not until():
            if not self._queue or self._queue[0][0] > end:
                self.now = end
                return until()
            self._step()
        return True

    def _step(self) -> None:
        when, _, act = heapq.heappop(self._queue)
        self.now = when
        self.steps += 1
        assert self.steps < EVENTS_LIMIT, "something goes round in circles"
        act()
        for check in self.after_each:
            check()
