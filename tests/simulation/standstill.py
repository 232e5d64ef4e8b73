"""A process that stands still, as one that was sent SIGSTOP or a phone that dozes: its connection
stays, what comes for it waits, its clock goes on, and then it does everything late."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.clockwork import Clockwork


class Standstill:
    def __init__(self, clock: Clockwork) -> None:
        self._clock = clock
        self._waiting: list[Callable[[], None]] = []
        self._times = 0
        self.lasts = False

    def begin(self, seconds: float) -> None:
        self.lasts = True
        self._times += 1
        times = self._times
        self._clock.later(seconds, lambda: self.end() if times == self._times else None)

    def end(self) -> None:
        """What waited happens now, in its order."""
        self.lasts = False
        while self._waiting and not self.lasts:
            self._waiting.pop(0)()

    def forget(self) -> None:
        """The process is gone, and what waited for it."""
        self._waiting.clear()
        self.lasts = False

    def run(self, act: Callable[[], None]) -> None:
        """Now, or when it goes on."""
        if self.lasts:
            self._waiting.append(act)
        else:
            act()
