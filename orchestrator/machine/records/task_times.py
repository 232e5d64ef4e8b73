"""How long a device takes for the tasks of its partition, and how often in a row much longer.

Keeps what was seen; what counts as slow is decided in `plans.slowing`.
"""

from __future__ import annotations

from dataclasses import dataclass

MOMENT_S = 0.5  # slow tasks that end within it were slow for one reason


@dataclass(slots=True)
class TaskTimes:
    usual_s: float | None = None  # the least that a task was seen to take
    slow_moments: int = 0  # at which tasks took much longer, with none between that did not
    slow_at: float | None = None  # when the last of these began

    def quick(self, took_s: float) -> None:
        """A task took what such tasks take."""
        self.usual_s = took_s if self.usual_s is None else min(self.usual_s, took_s)
        self.slow_moments, self.slow_at = 0, None

    def slow(self, now: float) -> None:
        """A task took much longer."""
        if self.slow_at is None or now >= self.slow_at + MOMENT_S:
            self.slow_moments, self.slow_at = self.slow_moments + 1, now
