"""Fields of a protobuf message in memory, and fields to be put into one.

Follows https://protobuf.dev/programming-guides/encoding. Knows no message types: `row_graph` knows
those of a graph. Refuses bytes that do not parse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wire.errors import LoadFailed

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED_NBYTES = {FIXED64: 8, FIXED32: 4}
_VARINT_NBYTES = 10


@dataclass(frozen=True, slots=True)
class Field:
    """`payload` is what a BYTES field holds; `value` what a VARINT field says; `whole` is the
    field with its key, to be copied."""

    key: int
    payload: memoryview
    value: int
    whole: memoryview

    @property
    def text(self) -> str:
        return bytes(self.payload).decode("utf-8", "surrogateescape")


def fields(message: memoryview) -> Iterator[Field]:
    """Raises `LoadFailed` if the bytes are no message."""
    at = 0
    while at < len(message):
        tag, start = _varint(message, at)
        wire_type, value, end = tag & 7, 0, start
        if wire_type == BYTES:
            nbytes, start = _varint(message, start)
            end = start + nbytes
        elif wire_type == VARINT:
            value, end = _varint(message, start)
        else:
            end = start + _FIXED_NBYTES.get(wire_type, len(message) + 1)
        if end > len(message) or tag >> 3 == 0:
            raise LoadFailed(f"the graph is no protobuf message at byte {at}")
        yield Field(tag >> 3, message[start:end], value, message[at:end])
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    value = 0
    for place, byte in enumerate(message[at : at + _VARINT_NBYTES]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise LoadFailed(f"the graph is no protobuf message at byte {at}")


def signed(value: int) -> int:
    """The value of a varint field that is of a signed type."""
    return value - (1 << 64) if value >> 63 else value


def put(key: int, payload: bytes) -> bytes:
    """A BYTES field."""
    return _made(key << 3 | BYTES) + _made(len(payload)) + payload


def put_number(key: int, value: int) -> bytes:
    """A VARINT field; not for negative numbers."""
    return _made(key << 3 | VARINT) + _made(value)


def _made(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
