"""The moment after a start in which devices say what they hold, so that no plan is made without it.

It ends with its time, or sooner: when everybody that was told to serve something has answered.
"""

from __future__ import annotations

from collections.abc import Iterable

LEAST_S = 0.3  # in which a broker tells what it retained: whom to wait for


class Settling:
    def __init__(self) -> None:
        self._least_until = self._most_until = float("-inf")
        self._awaited: dict[str, None] = {}
        self._answered: set[str] = set()
        self.until = float("-inf")

    def begin(self, now: float, most_s: float) -> None:
        self.until = self._most_until = now + most_s
        self._least_until = now + min(LEAST_S, most_s)

    def wait_for(self, device: str, now: float) -> None:
        """It was told to serve something before."""
        if now < self.until and device not in self._answered:
            self._awaited[device] = None
            self.until = self._most_until

    def answered(self, device: str, now: float) -> bool:
        """It said what it holds, or is gone; whether nobody is waited for any more, by this."""
        if now >= self.until:
            return False
        self._answered.add(device)
        last = self._awaited.pop(device, 0) is None and not self._awaited
        if last:
            self.until = max(now, self._least_until)
        return last

    @property
    def awaited(self) -> Iterable[str]:
        return self._awaited.keys()
