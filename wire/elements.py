"""The ONNX tensor element types: their numbers, names and sizes.

Numbers are those of `TensorProto.DataType` in onnx.proto. Sizes are in bits, since int4 and its
kin pack two elements, and int2 four, in a byte. Strings have no fixed size. The 6-bit floats of
onnx 1.23 (27 and 28) are not among them: no ONNX Runtime can hold one yet.
"""

from __future__ import annotations

from enum import IntEnum

from wire.errors import Malformed


class Element(IntEnum):
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26


_BITS: dict[Element, int] = {
    Element.FLOAT: 32,
    Element.UINT8: 8,
    Element.INT8: 8,
    Element.UINT16: 16,
    Element.INT16: 16,
    Element.INT32: 32,
    Element.INT64: 64,
    Element.BOOL: 8,
    Element.FLOAT16: 16,
    Element.DOUBLE: 64,
    Element.UINT32: 32,
    Element.UINT64: 64,
    Element.COMPLEX64: 64,
    Element.COMPLEX128: 128,
    Element.BFLOAT16: 16,
    Element.FLOAT8E4M3FN: 8,
    Element.FLOAT8E4M3FNUZ: 8,
    Element.FLOAT8E5M2: 8,
    Element.FLOAT8E5M2FNUZ: 8,
    Element.UINT4: 4,
    Element.INT4: 4,
    Element.FLOAT4E2M1: 4,
    Element.FLOAT8E8M0: 8,
    Element.UINT2: 2,
    Element.INT2: 2,
}


def element(number: int) -> Element:
    try:
        return Element(number)
    except ValueError:
        raise Malformed(f"{number} is no ONNX tensor element type") from None


def bits_of(kind: Element) -> int:
    """Bits of one element; 0 for strings, whose size is in their data."""
    return _BITS.get(kind, 0)


def itemsize_of(kind: Element) -> int:
    """Bytes of one element, 1 for packed types (their plane is a byte), 0 for strings."""
    return max(1, bits_of(kind) // 8) if kind is not Element.STRING else 0


def nbytes_of(kind: Element, count: int) -> int:
    """Bytes that `count` elements take, packed types rounded up; strings are refused."""
    if kind is Element.STRING:
        raise ValueError("strings have no fixed size")
    return (count * bits_of(kind) + 7) // 8
