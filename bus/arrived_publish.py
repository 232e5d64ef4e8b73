"""A PUBLISH that came, read without copying its payload.

paho cuts topic, packet identifier and properties off one after another, each cut a copy of the
rest, and reads every property. Most are for watchers and the broker: here they are passed over, and
`user_properties` finds the one that somebody needs.
"""

from __future__ import annotations

_RETAIN, _QOS_SHIFT, _QOS = 1, 1, 3  # in a PUBLISH's first byte: MQTT 5, section 3.3.1
_LONGEST_LENGTH = 4  # bytes of a variable byte integer at most: MQTT 5, section 1.5.5


class Unreadable(ValueError):
    """It is no PUBLISH of MQTT 5."""


class ArrivedPublish:
    """`payload` and `properties`, which begin with their length, are views of the packet. `mid` is
    0 at QoS 0."""

    __slots__ = ("mid", "payload", "properties", "qos", "retain", "topic")

    def __init__(self, first: int, packet: bytes | bytearray) -> None:
        """`packet` is all that follows the packet's length. Raises `Unreadable`."""
        self.qos = first >> _QOS_SHIFT & _QOS
        self.retain = bool(first & _RETAIN)
        view = memoryview(packet)
        end = 2 + int.from_bytes(view[:2], "big")
        self.topic = str(view[2:end], "utf-8", "replace")
        begin = end + 2 if self.qos else end
        self.mid = int.from_bytes(view[end:begin], "big")
        nbytes, taken = _length(view[begin : begin + _LONGEST_LENGTH])
        end = begin + taken + nbytes
        if end > len(view):
            raise Unreadable(f"a PUBLISH of {len(view)} bytes is cut short")
        self.properties = view[begin:end]
        self.payload = view[end:]


def _length(view: memoryview) -> tuple[int, int]:
    """A variable byte integer, and how many bytes it takes."""
    number = 0
    for place, digit in enumerate(view):
        number |= (digit & 127) << 7 * place
        if digit < 128:
            return number, place + 1
    raise Unreadable("a PUBLISH's properties have no length")
