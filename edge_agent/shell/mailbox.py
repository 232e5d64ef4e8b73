"""What happened, waiting for the machine: one bounded queue into the main thread.

Adapters put from their own threads, and the network from the main thread itself, far fewer in a
turn than there is room for: it never waits for itself. At the bound the others wait: 10,000 events
are far more than a healthy agent has, so a queue that stays full means that the main thread is
stuck, and that is said instead of losing an event. Only progress of a fetch is dropped at the
bound. Of several that put at once each may find the last place: then there are as many more as
there are threads.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable

from edge_agent.machine.records.events import Event, FetchProgressed
from wire.errors import TimedOut

BOUND = 10_000
TAKEN = 64  # at once: what comes meanwhile waits no longer than these take
LIMIT_S = 20.0

_log = logging.getLogger("crowdpipe.agent")


class Mailbox:
    """A `SimpleQueue`, which takes a tenth of the time of a `Queue`: every hop of every item
    passes here three times. `wake` ends the main thread's wait for the network."""

    def __init__(self, wake: Callable[[], None], bound: int = BOUND) -> None:
        self._wake = wake
        self._bound = bound
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._taken = threading.Condition()
        self._crowded = False
        self._taker = 0

    def put(self, event: Event, *, wake: bool = True) -> None:
        """Without `wake`, it is taken with whatever wakes the main thread next. Raises `TimedOut`
        if nobody takes events."""
        if self._full() and not self._find_room(event):
            return
        self._events.put(event)
        if wake:
            self._wake()

    def wake(self) -> None:
        """Have the main thread look for what is no event."""
        self._wake()

    def _full(self) -> bool:
        return self._events.qsize() >= self._bound and threading.get_ident() != self._taker

    def _find_room(self, event: Event) -> bool:
        """False if the event may be dropped instead."""
        if isinstance(event, FetchProgressed):
            return False
        with self._taken:
            if self._taken.wait_for(self._has_room, LIMIT_S):
                return True
        _log.error("the agent's main thread is stuck; %s is lost", type(event).__name__)
        raise TimedOut(f"waited {LIMIT_S:g} s for the agent's main thread")

    def take(self) -> list[Event]:
        """What waits, in its order, at most `TAKEN`. Never waits."""
        taken: list[Event] = []
        self._taker = threading.get_ident()
        with contextlib.suppress(queue.Empty):
            while len(taken) < TAKEN:
                taken.append(self._events.get_nowait())
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
