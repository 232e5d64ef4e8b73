"""The few bytes of protobuf that are written and read here without a library for it.

ONNX graphs are protobuf messages, and neither an idle desk nor a device should load `onnx` to
touch a field (https://protobuf.dev/programming-guides/encoding). What a field means is the
callers' affair.
"""

from __future__ import annotations

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
FIXED_NBYTES = {FIXED64: 8, FIXED32: 4}
VARINT_NBYTES = 10  # of the longest


def varint(value: int) -> bytes:
    """Not for negative numbers."""
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def put_bytes(number: int, payload: bytes) -> bytes:
    """Field `number`: bytes, a text or a message."""
    return varint(number << 3 | BYTES) + varint(len(payload)) + payload


def put_number(number: int, value: int) -> bytes:
    """Field `number`: a number, not negative."""
    return varint(number << 3 | VARINT) + varint(value)


def parse_varint(message: bytes | memoryview, at: int) -> tuple[int, int] | None:
    """The number that begins at `at`, and where it ends; None if it does not end."""
    value = 0
    for place, byte in enumerate(message[at : at + VARINT_NBYTES]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    return None
