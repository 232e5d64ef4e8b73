"""Devices that are to be asked for a sign of life, some at a time.

After a start there are as many as have retained anything; those that are there say something
themselves meanwhile, and leave. Whom to ask, and how, is decided in `devices.liveness`.
"""

from __future__ import annotations

from itertools import islice

AT_ONCE, WINDOW_S = 64, 0.25  # so many at most in each window
NEVER = float("inf")


class Turns:
    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._window_at = float("-inf")
        self._taken = 0  # in the current window

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def wait(self, name: str) -> None:
        self._waiting[name] = None

    def leave(self, name: str) -> None:
        """It need not be asked any more."""
        self._waiting.pop(name, None)

    def take(self, now: float) -> list[str]:
        """Those whose turn it is."""
        if now >= self._window_at + WINDOW_S:
            self._window_at, self._taken = now, 0
        names = list(islice(self._waiting, AT_ONCE - self._taken))
        for name in names:
            del self._waiting[name]
        self._taken += len(names)
        return names

    @property
    def next_at(self) -> float:
        """When the next window begins, if somebody waits for it."""
        return self._window_at + WINDOW_S if self._waiting else NEVER
