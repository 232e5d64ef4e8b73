"""What happened, waiting for the machine: one bounded queue into the main thread.

Adapters put from their own threads. At the bound they wait: 10,000 events are far more than a
healthy agent has, so a queue that stays full means that the main thread is stuck, and that is said
instead of losing an event. Only progress of a fetch is dropped at the bound. Of several that put
at once each may find the last place: then there are as many more as there are threads.
"""

from __future__ import annotations

import logging
import queue
import threading

from edge_agent.machine.records.events import Event, FetchProgressed
from wire.errors import TimedOut

BOUND = 10_000
TAKEN = 64  # at once: what comes meanwhile waits no longer than these take
LIMIT_S = 20.0

_log = logging.getLogger("crowdpipe.agent")


class Mailbox:
    """A `SimpleQueue`, which takes a tenth of the time of a `Queue`: every hop of every item
    passes here three times."""

    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._taken = threading.Condition()
        self._crowded = False

    def put(self, event: Event | None) -> None:
        """None only wakes the main thread. Raises `TimedOut` if nobody takes events."""
        if self._full() and not self._find_room(event):
            return
        self._events.put(event)

    def _full(self) -> bool:
        return self._events.qsize() >= self._bound

    def _find_room(self, event: Event | None) -> bool:
        """False if the event may be dropped instead."""
        if isinstance(event, FetchProgressed):
            return False
        with self._taken:
            if self._taken.wait_for(self._has_room, LIMIT_S):
                return True
        _log.error("the agent's main thread is stuck; %s is lost", type(event).__name__)
        raise TimedOut(f"waited {LIMIT_S:g} s for the agent's main thread")

    def take(self, limit_s: float | None) -> list[Event]:
        """What waits, in its order, at most `TAKEN`; none after `limit_s`, or when only woken."""
        taken: list[Event] = []
        try:
            event = self._events.get(timeout=limit_s)
            while event is not None:
                taken.append(event)
                event = self._events.get_nowait() if len(taken) < TAKEN else None
        except queue.Empty:
            pass
        if self._crowded:
            self._tell_room()
        return taken

    def _has_room(self) -> bool:
        self._crowded = True  # before the look: what is taken from now on is told
        return not self._full()

    def _tell_room(self) -> None:
        with self._taken:
            self._crowded = False
            self._taken.notify_all()
