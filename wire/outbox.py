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

from collections import OrderedDict
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
        # Both lanes by place, which rises. Not plain dicts: what is taken from the front of one
        # leaves gaps that every later look at the front passes over again.
        self._control: OrderedDict[int, Message] = OrderedDict()
        self._data: OrderedDict[int, Message] = OrderedDict()
        self._place = 0
        self._replaceable: dict[str, int] = {}  # by topic, where its message with `coalesce` waits
        self._inflight: dict[int, Message] = {}  # by token; QoS 1 alone
        self._token = 0
        self._nbytes = 0  # the payloads of both lanes
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
        place = self._replaceable.get(message.topic) if message.coalesce else None
        lane = self._control if place in self._control else self._data
        held = self._nbytes - (0 if place is None else len(lane[place].payload))
        limit = self.max_nbytes + (self.max_nbytes // 4 if message.control else 0)
        if held + len(message.payload) > limit:
            raise QueueFull(
                f"{held} bytes wait to be published; {message.topic} with "
                f"{len(message.payload)} more does not fit into {limit}"
            )
        if place is not None:
            self._take(lane, place)
        self._append(message)
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
        while self._data:
            self._take(self._data, next(iter(self._data)))
        self._inflight = {token: each for token, each in self._inflight.items() if each.control}

    def clear(self) -> None:
        """Drop everything."""
        self._control.clear()
        self._data.clear()
        self._replaceable.clear()
        self._inflight.clear()
        self._nbytes = 0

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold: for tests."""
        waiting = {**self._control, **self._data}
        assert len(waiting) == len(self._control) + len(self._data), "a place is taken once"
        assert self._nbytes == sum(len(each.payload) for each in waiting.values())
        expected = {each.topic: place for place, each in waiting.items() if each.coalesce}
        assert self._replaceable == expected, "one message waits for each topic that coalesces"
        assert all(each.control for each in self._control.values())
        assert not any(each.control for each in self._data.values())
        assert all(each.qos for each in self._inflight.values())

    def _release(self) -> list[Numbered]:
        released = []
        while self._connected and len(self._inflight) < self.max_inflight:
            lane = self._control or self._data
            if not lane:
                break
            released.append(self._number(self._take(lane, next(iter(lane)))))
        return released

    def _number(self, message: Message) -> Numbered:
        self._token += 1
        if message.qos > 0:
            self._inflight[self._token] = message
        return Numbered(self._token, message)

    def _append(self, message: Message) -> None:
        self._place += 1
        (self._control if message.control else self._data)[self._place] = message
        self._nbytes += len(message.payload)
        if message.coalesce:
            self._replaceable[message.topic] = self._place

    def _take(self, lane: OrderedDict[int, Message], place: int) -> Message:
        message = lane.pop(place)
        self._nbytes -= len(message.payload)
        if message.coalesce:
            del self._replaceable[message.topic]
        return message
