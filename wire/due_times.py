"""When what is due: a heap, so that looking for the next costs the same among however many.

A time that moves later, as limits do with each progress, only changes a number: the heap finds
out when the old time comes. Ties come out in the order in which they were set. Pure: the time
comes with each call.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

NEVER = float("inf")
SLACK = 64  # entries of what is due no more, beyond as many as there are of others

K = TypeVar("K", bound=Hashable)


class DueTimes(Generic[K]):
    """At most one time for each key; `NEVER` is none."""

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._queued: dict[K, tuple[float, int]] = {}  # its entry in the heap, never after `_at`
        self._heap: list[tuple[float, int, K]] = []  # entries that `_queued` lacks are over
        self._count = 0

    def __len__(self) -> int:
        return len(self._at)

    def at(self, key: K) -> float:
        return self._at.get(key, NEVER)

    def set(self, key: K, at: float) -> None:
        """It is due at this time, and at no other."""
        if at == NEVER:
            self.discard(key)
            return
        self._at[key] = at
        queued = self._queued.get(key)
        if queued is None or at < queued[0]:
            self._push(key, at)

    def discard(self, key: K) -> None:
        self._at.pop(key, None)
        self._queued.pop(key, None)

    def next_at(self) -> float:
        """When the first is due; `NEVER` if none is."""
        while self._heap:
            at, count, key = self._heap[0]
            if self._queued.get(key) != (at, count):
                heapq.heappop(self._heap)
            elif self._at[key] > at:
                self._push(key, self._at[key])
            else:
                return at
        return NEVER

    def take(self, now: float) -> list[K]:
        """What is due by now, the earliest first; it is due no more."""
        due: list[K] = []
        while self.next_at() <= now:
            key = heapq.heappop(self._heap)[2]
            del self._at[key], self._queued[key]
            due.append(key)
        return due

    def _push(self, key: K, at: float) -> None:
        self._count += 1
        if len(self._heap) > 2 * len(self._queued) + SLACK:
            self._sweep()
        self._queued[key] = (at, self._count)  # the count is unique: keys are never compared
        heapq.heappush(self._heap, (at, self._count, key))

    def _sweep(self) -> None:
        """Drop the entries that are over, so that there are never many more than keys."""
        self._heap = [(at, count, key) for key, (at, count) in self._queued.items()]
        heapq.heapify(self._heap)
