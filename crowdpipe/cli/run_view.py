"""What a person sees of a run while it goes on, on stderr.

In a terminal a bar, with what happened above it; elsewhere plain lines, some seconds apart.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
)

from crowdpipe.cli.console import notes
from crowdpipe.cli.excerpts import show_text
from crowdpipe.cli.quantities import counted

LINE_EVERY_S = 5.0
LINE_CHARACTERS = 1000
RATE_OVER_S, SAMPLE_EVERY_S = 10.0, 0.25
GOES_ON = "It goes on."


class RunView:
    """Shown inside a `with`. `wait` and `happen` may be called from any thread."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._now = clock
        self._console = notes()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._title, self._total, self._done = title, 0, 0
        self._task = self._bar.add_task(title, total=None, rate="")
        self._samples: deque[tuple[float, int]] = deque()
        self._count_anew()
        self._waiting = False

    def of(self, total: int) -> RunView:
        """It has so many items."""
        self._total = total
        self._bar.update(self._task, total=total)
        return self

    def __enter__(self) -> RunView:
        self._bar.start()
        self._count_anew()
        if not self._console.is_terminal:
            self._say(f"{self._title}: {counted(self._total, 'item')}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def so_far(self, done: int) -> None:
        """So many items have their outcome."""
        self._done, now = done, self._now()
        rate = f"{self._rate(now):.1f} a second"
        self._bar.update(self._task, completed=done, rate=rate)
        if not self._console.is_terminal and now >= self._line_at + LINE_EVERY_S:
            self._line_at = now
            self._say(f"{done} of {counted(self._total, 'item')}, {rate}")

    def _count_anew(self) -> None:
        """What was before says nothing of its rate."""
        self._line_at = self._now()
        self._samples = deque([(self._line_at, self._done)])

    def _rate(self, now: float) -> float:
        """Items a second, over the last while."""
        samples = self._samples
        if now >= samples[-1][0] + SAMPLE_EVERY_S:
            samples.append((now, self._done))
        while len(samples) > 1 and samples[1][0] < now - RATE_OVER_S:
            samples.popleft()
        since, before = samples[0]
        return (self._done - before) / max(SAMPLE_EVERY_S, now - since)

    def wait(self, reason: str) -> None:
        """What keeps it from going on; nothing if it is empty."""
        if reason:
            self._say(f"Waiting: {reason}")
        elif self._waiting:
            self._say(GOES_ON)
            self._count_anew()
        self._waiting = bool(reason)
        self._bar.update(self._task, description="waiting" if reason else self._title)

    def happen(self, text: str) -> None:
        self._say(text)

    def _say(self, text: str) -> None:
        self._console.print(show_text(text, LINE_CHARACTERS), soft_wrap=True)
