"""What happened, waiting for the client's machine."""

from __future__ import annotations

import contextlib
import queue

from crowdpipe.client.events import Event
from wire.errors import TimedOut

BOUND = 10_000
TOGETHER = 64  # events that are handled at once
STUCK_LIMIT_S = 20.0


class Mailbox:
    """At its bound whoever puts waits."""

    def __init__(self) -> None:
        self._events: queue.Queue[Event | None] = queue.Queue(BOUND)

    def put(self, event: Event) -> None:
        """Raises `TimedOut` if nobody takes any."""
        try:
            self._events.put(event, timeout=STUCK_LIMIT_S)
        except queue.Full:
            stuck = f"crowdpipe's own thread has been stuck for {STUCK_LIMIT_S:g} s"
            raise TimedOut(stuck) from None

    def close(self, limit_s: float) -> None:
        """Nothing is taken after what waits."""
        with contextlib.suppress(queue.Full):  # then the thread is stuck, and ends with us
            self._events.put(None, timeout=limit_s)

    def take(self, limit_s: float | None) -> list[Event | None]:
        """The next event and what waits behind it, None for the end; none after `limit_s`."""
        taken: list[Event | None] = []
        with contextlib.suppress(queue.Empty):
            taken.append(self._events.get(timeout=limit_s))
            while len(taken) < TOGETHER and taken[-1] is not None:
                taken.append(self._events.get_nowait())
        return taken
