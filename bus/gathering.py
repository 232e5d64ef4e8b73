"""When to read again while nothing comes but what may wait.

Ten thousand devices say their telemetry a thousand times a second. Read as it comes, each message
wakes two threads that find nothing of theirs in the processor's caches any more: that is half of
what it costs. So while many come in a row that may all wait, the next read waits a moment. One that
may not ends this at once, and was itself late by that moment at most. Pure: the time comes with
each call.
"""

from __future__ import annotations

from collections.abc import Callable

PAUSE_S = 0.05
ROW_COUNT, ROW_S = 32, 0.128  # so many in a row, in so short a time, are many


class Gathering:
    """`may_wait` tells by a message's topic whether it may be read a moment late."""

    def __init__(self, may_wait: Callable[[str], bool] | None) -> None:
        self._may_wait = may_wait
        self.restart()

    def restart(self) -> None:
        """A new connection, of which nothing is known."""
        self._count = 0
        self._since = self._until_s = 0.0
        self._many = False

    def came(self, topic: str, *, retained: bool = False) -> None:
        """A message of this topic was read. What a broker had kept for us comes as fast as it can
        be read, and waits for nothing."""
        if self._may_wait is None:
            return
        if self._may_wait(topic) and not retained:
            self._count += 1
        else:
            self._count, self._many, self._until_s = 0, False, 0.0

    def read(self, now: float) -> None:
        """What had come was read."""
        if self._count >= ROW_COUNT:
            self._many = True
        if now - self._since > ROW_S:
            self._many = self._count >= ROW_COUNT
            self._count, self._since = 0, now
        if self._many:
            self._until_s = now + PAUSE_S

    def pause_s(self, now: float) -> float:
        """For so long nothing need be read."""
        return max(0.0, self._until_s - now)
