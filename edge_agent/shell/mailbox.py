"""What happened, waiting for the machine: one bounded queue into the main thread.

Adapters put from their own threads. At the bound they wait: 10,000 events are far more than a
healthy agent has, so a queue that stays full means that the main thread is stuck, and that is said
instead of losing an event. Only progress of a fetch is dropped at the bound.
"""

from __future__ import annotations

import logging
import queue

from edge_agent.machine.events import Event, FetchProgressed
from wire.errors import TimedOut

BOUND = 10_000
LIMIT_S = 20.0

_log = logging.getLogger("crowdpipe.agent")


class Mailbox:
    def __init__(self, bound: int = BOUND) -> None:
        self._events: queue.Queue[Event | None] = queue.Queue(bound)

    def put(self, event: Event | None) -> None:
        """None only wakes the main thread. Raises `TimedOut` if nobody takes events."""
        try:
            if isinstance(event, FetchProgressed):
                self._events.put_nowait(event)
            else:
                self._events.put(event, timeout=LIMIT_S)
        except queue.Full:
            if not isinstance(event, FetchProgressed):
                _log.error("the agent's main thread is stuck; %s is lost", type(event).__name__)
                raise TimedOut(f"waited {LIMIT_S:g} s for the agent's main thread") from None

    def get(self, limit_s: float | None) -> Event | None:
        """The next event, or None after `limit_s`."""
        try:
            return self._events.get(timeout=limit_s)
        except queue.Empty:
            return None
