"""How long answers to pings took lately: the slowest says how far behind devices, broker or we
ourselves are."""

from __future__ import annotations

KEPT_S = 10.0


class Answers:
    def __init__(self) -> None:
        self._slowest_s, self._at = 0.0, float("-inf")

    def took(self, seconds: float, now: float) -> None:
        if seconds >= self.slowest_s(now):
            self._slowest_s, self._at = seconds, now

    def slowest_s(self, now: float) -> float:
        """Of the last ten seconds; 0 if nobody answered."""
        return self._slowest_s if now < self._at + KEPT_S else 0.0
