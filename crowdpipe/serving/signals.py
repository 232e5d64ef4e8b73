"""Ctrl-C, a request to end and a closed terminal, all as one exception in the main thread.

So that every `with` on the way is left in order. Further signals are ignored meanwhile: an
impatient second Ctrl-C must not leave half of what was started running.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FIRST_SIGNAL_EXIT = 128  # shells add the signal's number to this


class Interrupted(BaseException):
    """A signal asks this program to end. No `Exception`: nothing on the way may swallow it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.exit_code = FIRST_SIGNAL_EXIT + number


@contextmanager
def ending_signals_raise() -> Iterator[None]:
    """Raise `Interrupted` in the main thread at the first ending signal inside the `with`."""
    before = {number: signal.getsignal(number) for number in ENDING}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]  # nohup: a closed terminal shall not end us

    def end(number: int, _frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
