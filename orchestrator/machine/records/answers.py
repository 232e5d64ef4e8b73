"""How long answers to pings took lately: where several are slow, the broker or we ourselves are."""

from __future__ import annotations

KEPT_S = 10.0
SLOW_S = 0.2  # quicker answers are not worth noting
KEPT = 16  # devices


class Answers:
    def __init__(self) -> None:
        self._slow: dict[str, tuple[float, float]] = {}  # by device: seconds, and when

    def took(self, device: str, seconds: float, now: float) -> None:
        self._slow.pop(device, None)
        if seconds >= SLOW_S:
            self._slow[device] = seconds, now
        if len(self._slow) > KEPT:
            del self._slow[next(iter(self._slow))]

    def slow_s(self, now: float) -> float:
        """What two devices at least took in the last ten seconds: one alone is slow by itself."""
        lately = sorted(seconds for seconds, at in self._slow.values() if now < at + KEPT_S)
        return lately[-2] if len(lately) > 1 else 0.0
