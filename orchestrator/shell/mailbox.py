"""What happened, waiting for the machine: one queue into the main thread.

What comes from outside waits at the bound, and that is said if it lasts: the main thread would be
stuck. The journal's answers never wait, since the main thread may wait for the journal; they are
no more than what was asked of it.
"""

from __future__ import annotations

import logging
import threading
from collections import deque

from orchestrator.machine.events import Event
from wire.errors import TimedOut

BOUND = 10_000
LIMIT_S = 20.0

_log = logging.getLogger("crowdpipe.orchestrator")


class Mailbox:
    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._condition = threading.Condition()
        self._events: deque[Event | None] = deque()

    def put(self, event: Event) -> None:
        """Raises `TimedOut` if nobody takes events; this one is then lost."""
        with self._condition:
            if not self._condition.wait_for(lambda: len(self._events) < self._bound, LIMIT_S):
                _log.error("the main thread is stuck; %s is lost", type(event).__name__)
                raise TimedOut(f"waited {LIMIT_S:g} s for the orchestrator's main thread")
            self._append(event)

    def answer(self, event: Event) -> None:
        """Like `put`, for the answer to something that the main thread asked for."""
        with self._condition:
            self._append(event)

    def wake(self) -> None:
        """Have the main thread look around."""
        with self._condition:
            self._append(None)

    def get(self, limit_s: float) -> Event | None:
        """The next event, or None after `limit_s` or a wake."""
        with self._condition:
            if not self._condition.wait_for(lambda: self._events, limit_s):
                return None
            event = self._events.popleft()
            self._condition.notify_all()
            return event

    def _append(self, event: Event | None) -> None:
        self._events.append(event)
        self._condition.notify_all()
