"""Fields of a protobuf message in memory, read one after the other.

Knows no message types: `row_graph` knows those of a graph. Refuses bytes that do not parse. What
writes fields is `wire.protobuf`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wire.errors import LoadFailed
from wire.protobuf import BYTES, FIXED_NBYTES, VARINT, parse_varint


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
            end = start + FIXED_NBYTES.get(wire_type, len(message) + 1)
        if end > len(message) or tag >> 3 == 0:
            raise LoadFailed(f"the graph is no protobuf message at byte {at}")
        yield Field(tag >> 3, message[start:end], value, message[at:end])
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    found = parse_varint(message, at)
    if found is None:
        raise LoadFailed(f"the graph is no protobuf message at byte {at}")
    return found


def signed(value: int) -> int:
    """The value of a varint field that is of a signed type."""
    return value - (1 << 64) if value >> 63 else value
