"""What happened, waiting for the machine: one queue into the main thread.

What comes from outside waits at the bound, and that is said if it lasts: the main thread would be
stuck. The journal's answers never wait, since the main thread may wait for the journal; they are
no more than what was asked of it. Of several that put at once each may find the last place: then
there are as many more as there are threads.
"""

from __future__ import annotations

import logging
import queue
import threading

from orchestrator.machine.records.events import Event
from wire.errors import TimedOut

BOUND = 10_000
LIMIT_S = 20.0

_log = logging.getLogger("crowdpipe.orchestrator")


class Mailbox:
    """A `SimpleQueue`, which takes a tenth of the time of a condition and a deque: all of an
    item's events pass here."""

    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._taken = threading.Condition()
        self._crowded = False

    def put(self, event: Event) -> None:
        """Raises `TimedOut` if nobody takes events; this one is then lost."""
        if self._full():
            self._wait_for_room(event)
        self._events.put(event)

    def _full(self) -> bool:
        return self._events.qsize() >= self._bound

    def _wait_for_room(self, event: Event) -> None:
        with self._taken:
            if self._taken.wait_for(self._has_room, LIMIT_S):
                return
        _log.error("the main thread is stuck; %s is lost", type(event).__name__)
        raise TimedOut(f"waited {LIMIT_S:g} s for the orchestrator's main thread")

    def answer(self, event: Event) -> None:
        """Like `put`, for the answer to something that the main thread asked for."""
        self._events.put(event)

    def wake(self) -> None:
        """Have the main thread look around."""
        self._events.put(None)

    def get(self, limit_s: float) -> Event | None:
        """The next event, or None after `limit_s` or a wake."""
        try:
            event = self._events.get(timeout=limit_s)
        except queue.Empty:
            return None
        if self._crowded:
            self._tell_room()
        return event

    def _has_room(self) -> bool:
        self._crowded = True  # before the look: what is taken from now on is told
        return not self._full()

    def _tell_room(self) -> None:
        with self._taken:
            self._crowded = False
            self._taken.notify_all()
