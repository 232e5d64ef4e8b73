"""OrtValues from raw bytes and back, for every element type that ONNX Runtime holds.

Raw bytes are little-endian and row-major, as the processor has them: phones and desks alike are
little-endian, and packed types (int4 and its kin) keep two or four elements in a byte. numpy is
passed by, because it has no bfloat16, float8 or int4.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from edge_agent.adapters.runtime.onnx_strings import string_value
from wire.elements import Element, bits_of, element, nbytes_of
from wire.errors import ComputeFailed, Malformed

Raw = bytes | bytearray | memoryview


def value_of(kind: Element, shape: Sequence[int], data: Raw) -> Any:
    """An OrtValue of its own memory. Raises `Malformed` if `data` is not what `shape` says."""
    import numpy
    import onnxruntime

    wanted = nbytes_of(kind, math.prod(shape))
    if len(data) != wanted:
        raise Malformed(f"{kind.name} of shape {tuple(shape)} has {wanted} bytes, not {len(data)}")
    try:
        value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), int(kind))
    except Exception as error:  # ONNX Runtime raises bare RuntimeErrors
        raise ComputeFailed(f"ONNX Runtime here cannot hold {kind.name}: {error}") from None
    if wanted:
        source = numpy.frombuffer(data, dtype=numpy.uint8)  # no copy
        ctypes.memmove(value.data_ptr(), source.ctypes.data, wanted)
    return value


def strings_value(shape: Sequence[int], strings: Sequence[bytes]) -> Any:
    """An OrtValue of strings. Raises `Malformed` if there are not as many as `shape` says."""
    if len(strings) != math.prod(shape):
        raise Malformed(f"strings of shape {tuple(shape)}: {len(strings)} came")
    return string_value(shape, strings)


def element_of(value: Any) -> Element:
    if not value.is_tensor():
        raise ComputeFailed(f"{value.data_type()} is no tensor: only tensors can cross a cut")
    return element(value.element_type())


def shape_of(value: Any) -> tuple[int, ...]:
    return tuple(value.shape())


def raw_of(value: Any) -> bytes:
    """The bytes of a tensor of fixed-size elements, unused bits of a packed type's last byte 0."""
    kind = element_of(value)
    count = math.prod(value.shape())
    nbytes = nbytes_of(kind, count)
    if nbytes == 0:
        return b""
    data = ctypes.string_at(value.data_ptr(), nbytes)
    used = count * bits_of(kind) % 8
    if used == 0:
        return data
    return data[:-1] + bytes((data[-1] & (1 << used) - 1,))


def strings_of(value: Any) -> list[bytes]:
    """A string tensor's elements, row-major. Raises `ComputeFailed` if one is not UTF-8."""
    try:
        return [str(text).encode() for text in value.numpy().reshape(-1)]
    except UnicodeDecodeError:
        raise ComputeFailed("a segment made strings that are not UTF-8") from None
