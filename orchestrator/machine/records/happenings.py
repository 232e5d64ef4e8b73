"""What happened to a run, in sentences for people: the last few, each with a number.

Records only; the words are those of whoever notes something.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

KEPT_COUNT = 8  # sentences: older ones are no news


@dataclass(slots=True)
class Happenings:
    """`count`: of all so far. `told`: as many of them as the client was sent."""

    count: int = 0
    told: int = 0
    latest: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=KEPT_COUNT))

    def add(self, text: str, now: float) -> None:
        self.latest.append((now, text))
        self.count += 1

    def untold(self) -> list[tuple[int, str]]:
        """Those to be sent, with their numbers; they count as told."""
        first = self.count - len(self.latest) + 1
        numbered = [(first + at, text) for at, (_, text) in enumerate(self.latest)]
        told, self.told = self.told, self.count
        return [(number, text) for number, text in numbered if number > told]

    def tell_again(self) -> None:
        """Whoever reads the run may have heard none of them."""
        self.told = 0
