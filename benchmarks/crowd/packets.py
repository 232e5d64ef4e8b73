"""As little of MQTT 5 as a thousand devices in one process need: their packets to the broker, and
the broker's to them.

Every program of ours speaks through a real library; this exists because a thousand of its clients
would take more of the machine than what is measured. Packets as in the standard (OASIS MQTT 5.0,
section 3); no properties beside those that must be skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

CONNACK, PUBLISH, PUBACK, SUBACK = 2, 3, 4, 9
CLEAN_START, WITH_WILL, WITH_PASSWORD, WITH_USER = 0x02, 0x04, 0x40, 0x80
WILL_QOS_1, WILL_RETAIN = 0x08, 0x20
SUBSCRIBED = 1  # the packet number of the only subscription
NEVER_SILENT_S = 0  # no keep-alive: nobody here is ever cut off
DISCONNECT = b"\xe0\x00"


@dataclass(frozen=True, slots=True)
class Packet:
    """`topic` and `payload` of a PUBLISH, `number` where it asks for an answer; `code`: the
    broker's answer, from 0x80 on a refusal."""

    kind: int
    code: int = 0
    topic: str = ""
    payload: bytes = b""
    number: int = 0


def connect(name: str, user: str, secret: str, will: tuple[str, bytes] | None = None) -> bytes:
    """As `user`, from a clean start. `will`: topic and payload, retained."""
    flags = CLEAN_START | WITH_USER | WITH_PASSWORD
    flags |= WITH_WILL | WILL_QOS_1 | WILL_RETAIN if will is not None else 0
    head = _text("MQTT") + bytes([5, flags]) + NEVER_SILENT_S.to_bytes(2, "big") + b"\x00"
    last_words = b"" if will is None else b"\x00" + _text(will[0]) + _binary(will[1])
    return _packet(0x10, head + _text(name) + last_words + _text(user) + _text(secret))


def publish(topic: str, payload: bytes, *, number: int = 0, retain: bool = False) -> bytes:
    """With a `number` it is to be acknowledged (QoS 1)."""
    first = 0x30 | (0x02 if number else 0) | (0x01 if retain else 0)
    numbered = number.to_bytes(2, "big") if number else b""
    return _packet(first, _text(topic) + numbered + b"\x00" + payload)


def puback(number: int) -> bytes:
    return _packet(0x40, number.to_bytes(2, "big"))


def subscribe(filters: tuple[str, ...]) -> bytes:
    """At QoS 1."""
    wanted = b"".join(_text(each) + b"\x01" for each in filters)
    return _packet(0x82, SUBSCRIBED.to_bytes(2, "big") + b"\x00" + wanted)


class Incoming:
    """Bytes from the broker, as they come, as packets."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Packet]:
        """All that are whole now."""
        self._data += data
        while (end := _end_of(self._data)) is not None:
            start, stop = end
            body, first = bytes(self._data[start:stop]), self._data[0]
            del self._data[:stop]
            yield _read(first, body)


def _read(first: int, body: bytes) -> Packet:
    kind = first >> 4
    if kind == PUBLISH:
        return _read_publish(first, body)
    if kind == CONNACK:
        return Packet(kind, code=body[1])
    if kind == SUBACK:
        return Packet(kind, code=max(body[2 + _skip(body[2:]) :]))
    if kind == PUBACK and len(body) > 2:
        return Packet(kind, code=body[2])
    return Packet(kind)


def _read_publish(first: int, body: bytes) -> Packet:
    at = 2 + int.from_bytes(body[:2], "big")
    topic, number = body[2:at].decode(), 0
    if first & 0x06:
        number, at = int.from_bytes(body[at : at + 2], "big"), at + 2
    return Packet(PUBLISH, topic=topic, payload=body[at + _skip(body[at:]) :], number=number)


def _skip(data: bytes) -> int:
    """Bytes that the properties in front of `data` take, their length included."""
    found = _variable(data, 0)
    if found is None:
        raise ValueError("properties without a length")
    return found[0] + found[1]


def _end_of(data: bytearray) -> tuple[int, int] | None:
    """From where to where the body of the first packet is; None if it is not whole."""
    found = _variable(data, 1)
    if found is None or len(data) < found[1] + found[0]:
        return None
    return found[1], found[1] + found[0]


def _variable(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """A number in seven bits a byte, low ones first, and where it ends; None if it does not."""
    number = 0
    for shift, index in enumerate(range(at, min(at + 4, len(data)))):
        number |= (data[index] & 0x7F) << 7 * shift
        if not data[index] & 0x80:
            return number, index + 1
    return None


def _packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + _length(len(body)) + body


def _length(number: int) -> bytes:
    digits = bytearray()
    while True:
        number, low = divmod(number, 128)
        digits.append(low | (0x80 if number else 0))
        if not number:
            return bytes(digits)


def _text(text: str) -> bytes:
    return _binary(text.encode())


def _binary(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data
