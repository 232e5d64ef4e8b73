"""How often it is told what became of frames of parties that may send nothing here.

The orchestrator does nothing about most of them, and each report costs it and us more than such a
frame costs its sender. A party may only be ahead of the assignment that lists it, so some are
told; the rest is counted.
"""

from __future__ import annotations

from wire.errors import Malformed, TimedOut

AT_ONCE, EVERY_S = 8, 1.0
OF_NO_USE = frozenset({Malformed.kind, TimedOut.kind, "cancelled"})
"""What is asked for again of a party that has a place, and is nobody's loss otherwise. Whatever
says that there is no room is told each time."""


class StrangerReports:
    def __init__(self) -> None:
        self._left = float(AT_ONCE)
        self._at = 0.0

    def may(self, now: float) -> bool:
        """One more; times do not fall."""
        self._left = min(float(AT_ONCE), self._left + (now - self._at) / EVERY_S)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
