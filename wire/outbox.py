"""What waits to be published: ours, so that an MQTT library's own queue never holds much.

Nothing is handed out while disconnected, and never more than `max_inflight` QoS 1 messages that
the broker has not acknowledged. Control messages go before data, each lane in order. A message
with `coalesce` replaces an older one on its topic that still waits, as retained state does, and
goes to the end of its lane. At `max_nbytes` a further message is refused with `QueueFull`, and
what waits stays; control messages may use a reserve of a quarter more, so that data cannot
silence events. QoS 0 takes no place in flight. A broker's acknowledgement releases nothing but
that place. Pure: whoever calls publishes what is returned.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from wire.errors import QueueFull

MAX_INFLIGHT = 32
MAX_NBYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """One message to publish; `expiry_s` None never expires."""

    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    expiry_s: int | None = None
    content_type: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    coalesce: bool = False
    control: bool = True


@dataclass(frozen=True, slots=True)
class Numbered:
    """A message on its way; `token` comes back with its acknowledgement."""

    token: int
    message: Message


class Outbox:
    """Two lanes and a window. Tokens rise by one with each message handed out."""

    def __init__(self, max_inflight: int = MAX_INFLIGHT, max_nbytes: int = MAX_NBYTES) -> None:
        self.max_inflight = max_inflight
        self.max_nbytes = max_nbytes
        self._control: deque[Message] = deque()
        self._data: deque[Message] = deque()
        self._inflight: dict[int, Message] = {}
        self._token = 0
        self._nbytes = 0
        self._connected = False

    @property
    def nbytes(self) -> int:
        """Payload bytes waiting, those in flight not counted."""
        return self._nbytes

    @property
    def empty(self) -> bool:
        """Nothing waits and nothing is in flight."""
        return not (self._control or self._data or self._inflight)

    def put(self, message: Message) -> list[Numbered]:
        """Queue a message; what is to be published now. Raises `QueueFull` at the bound."""
        older = self._older(message.topic) if message.coalesce else []
        held = self._nbytes - sum(len(each.payload) for each in older)
        limit = self.max_nbytes + (self.max_nbytes // 4 if message.control else 0)
        if held + len(message.payload) > limit:
            raise QueueFull(
                f"{held} bytes wait to be published; {message.topic} with "
                f"{len(message.payload)} more does not fit into {limit}"
            )
        for each in older:
            self._remove(each)
        (self._control if message.control else self._data).append(message)
        self._nbytes += len(message.payload)
        return self._release()

    def acknowledged(self, token: int) -> list[Numbered]:
        """The broker took (or refused) it: its place is free; what is to be published now."""
        self._inflight.pop(token, None)
        return self._release()

    def connected(self, session_present: bool) -> list[Numbered]:
        """What is to be published now. If the broker kept our session, the library repeats what
        was in flight by itself; if not, the outbox hands it out again, first, in its order."""
        self._connected = True
        again: list[Numbered] = []
        if not session_present:
            unsure = list(self._inflight.values())
            self._inflight.clear()
            again = [self._number(message) for message in unsure]
        return again + self._release()

    def disconnected(self) -> None:
        self._connected = False

    def forget_data(self) -> None:
        """Drop what is not control, waiting or in flight: whoever has it offers it again."""
        self._nbytes -= sum(len(message.payload) for message in self._data)
        self._data.clear()
        kept = {token: each for token, each in self._inflight.items() if each.control}
        self._inflight = kept

    def clear(self) -> None:
        """Drop everything."""
        self._control.clear()
        self._data.clear()
        self._inflight.clear()
        self._nbytes = 0

    def _release(self) -> list[Numbered]:
        released = []
        while self._connected and len(self._inflight) < self.max_inflight:
            lane = self._control or self._data
            if not lane:
                break
            message = lane.popleft()
            self._nbytes -= len(message.payload)
            released.append(self._number(message))
        return released

    def _number(self, message: Message) -> Numbered:
        self._token += 1
        if message.qos > 0:
            self._inflight[self._token] = message
        return Numbered(self._token, message)

    def _older(self, topic: str) -> list[Message]:
        lanes = (self._control, self._data)
        return [each for lane in lanes for each in lane if each.coalesce and each.topic == topic]

    def _remove(self, message: Message) -> None:
        (self._control if message.control else self._data).remove(message)
        self._nbytes -= len(message.payload)
