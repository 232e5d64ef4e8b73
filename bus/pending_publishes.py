"""What waits to be published and what the broker has not acknowledged yet, of one connection.

Anybody puts; the connection's thread takes, publishes and tells of acknowledgements. While there
is no connection, frames are not taken at all, since their courier offers them again, and control
messages only if the party wants them said on the next connection. Publishes nothing itself.
Safe to use from several threads.
"""

from __future__ import annotations

import threading
from collections import deque

from bus.connection_policy import ConnectionPolicy
from bus.sending_rate import SendingRate
from wire.outbox import Message, Numbered, Outbox


class PendingPublishes:
    def __init__(self, policy: ConnectionPolicy, rate: SendingRate, outbox: Outbox | None) -> None:
        self._repeats = policy.repeats
        self._ahead_nbytes = policy.ahead_nbytes
        self._most = policy.max_in_flight
        self._rate = rate
        self._outbox = Outbox() if outbox is None else outbox
        self._guard = threading.Lock()
        self._accepted = self._connected = False
        self._released: deque[Numbered] = deque()
        self._in_flight: dict[int, tuple[Numbered, float]] = {}

    @property
    def nbytes(self) -> int:
        """Payload bytes that wait, those in flight not counted."""
        return self._outbox.nbytes

    @property
    def roomy(self) -> bool:
        """Another frame may be taken out of its store."""
        return self._outbox.nbytes < self._ahead_nbytes

    @property
    def empty(self) -> bool:
        with self._guard:
            return self._outbox.empty and not self._released

    def put(self, message: Message, early: bool = False) -> None:
        """Raises `QueueFull` at the outbox's bound. `early`: said on the coming connection even
        before it is up, as soon as the broker let us in."""
        with self._guard:
            waits = self._repeats or (early and self._accepted)
            if self._connected or (message.control and waits):
                self._released.extend(self._outbox.put(message))

    # --- the connection's thread --------------------------------------------------------------

    def accepted(self) -> None:
        """The broker let us in; what we may read is still to be granted."""
        with self._guard:
            self._accepted = True

    def connected(self, receive_maximum: int) -> None:
        """The broker takes so many messages before it acknowledges the first."""
        with self._guard:
            self._connected = True
            self._outbox.max_inflight = min(self._most, receive_maximum)
            self._rate.restart()
            self._released.extend(self._outbox.connected(session_present=False))

    def disconnected(self) -> None:
        with self._guard:
            self._accepted = self._connected = False
            self._outbox.disconnected()
            self._released.clear()  # what has QoS 1 is handed out again; the rest was for now
            self._in_flight.clear()
            if self._repeats:
                self._outbox.forget_data()
            else:
                self._outbox.clear()

    def take(self) -> Numbered | None:
        """The next to publish now."""
        with self._guard:
            return self._released.popleft() if self._released else None

    def published(self, mid: int, numbered: Numbered, now: float) -> None:
        """Under that packet identifier; an acknowledgement will come."""
        self._in_flight[mid] = (numbered, now)
        self._rate.began(len(numbered.message.payload), now)

    def acknowledged(self, mid: int, now: float) -> Message | None:
        """What the broker took or refused; None if it was of an earlier connection."""
        numbered, sent_s = self._in_flight.pop(mid, (None, 0.0))
        if numbered is None:
            return None
        self._rate.acknowledged(len(numbered.message.payload), sent_s, now)
        self.withdraw(numbered)
        return numbered.message

    def withdraw(self, numbered: Numbered) -> None:
        """It is not in flight any more."""
        with self._guard:
            self._released.extend(self._outbox.acknowledged(numbered.token))
