"""Tensors of frames as numpy arrays, and back.

Types that numpy lacks are held in those it has: bfloat16 as `uint16` and float8 as `uint8`, bit
for bit; int4, uint4, int2, uint2 and float4 one element a byte (`int8` or `uint8`; float4 as its
four bits). Arrays of `ml_dtypes` are taken as what they are. Strings are object arrays of `str`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wire.elements import Element, bits_of
from wire.errors import Malformed
from wire.frames import Encoding, Tensor, encode_strings, encode_tensor
from wire.planes import Lossless

Array = NDArray[Any]
DTYPES: dict[Element, str] = {
    Element.FLOAT: "<f4",
    Element.UINT8: "u1",
    Element.INT8: "i1",
    Element.UINT16: "<u2",
    Element.INT16: "<i2",
    Element.INT32: "<i4",
    Element.INT64: "<i8",
    Element.STRING: "O",
    Element.BOOL: "?",
    Element.FLOAT16: "<f2",
    Element.DOUBLE: "<f8",
    Element.UINT32: "<u4",
    Element.UINT64: "<u8",
    Element.COMPLEX64: "<c8",
    Element.COMPLEX128: "<c16",
    Element.BFLOAT16: "<u2",
    Element.FLOAT8E4M3FN: "u1",
    Element.FLOAT8E4M3FNUZ: "u1",
    Element.FLOAT8E5M2: "u1",
    Element.FLOAT8E5M2FNUZ: "u1",
    Element.UINT4: "u1",
    Element.INT4: "i1",
    Element.FLOAT4E2M1: "u1",
    Element.FLOAT8E8M0: "u1",
    Element.UINT2: "u1",
    Element.INT2: "i1",
}
_EXTENDED = {
    "bfloat16": Element.BFLOAT16,
    "float8_e4m3fn": Element.FLOAT8E4M3FN,
    "float8_e4m3fnuz": Element.FLOAT8E4M3FNUZ,
    "float8_e5m2": Element.FLOAT8E5M2,
    "float8_e5m2fnuz": Element.FLOAT8E5M2FNUZ,
    "float8_e8m0fnu": Element.FLOAT8E8M0,
    "float4_e2m1fn": Element.FLOAT4E2M1,
    "uint4": Element.UINT4,
    "int4": Element.INT4,
    "uint2": Element.UINT2,
    "int2": Element.INT2,
}
_SIGNED = frozenset({Element.INT4, Element.INT2})


def matches(kind: Element, array: Array) -> bool:
    """Whether `array` may hold elements of `kind`."""
    if array.dtype.name in _EXTENDED:
        return _EXTENDED[array.dtype.name] is kind
    if kind is Element.STRING:
        return array.dtype.kind in "OUST"
    wanted = np.dtype(DTYPES[kind])
    return array.dtype.kind == wanted.kind and array.dtype.itemsize == wanted.itemsize


def encode_array(name: str, kind: Element, array: Array, transport: Lossless) -> Tensor:
    """`array`, which matches `kind`, as a tensor of a frame. `ValueError` if a value does not
    fit (a packed type's range, an element that is no string)."""
    if kind is Element.STRING:
        return encode_strings(name, array.shape, [_utf8(each) for each in array.flat], transport)
    bits = bits_of(kind)
    if array.dtype.name in _EXTENDED:
        plain = array.view(f"u{array.dtype.itemsize}")
    else:
        _check_range(kind, array)
        plain = array.astype(DTYPES[kind], "C", copy=False)
    data = _pack(plain, bits) if bits < 8 else plain.tobytes("C")
    return encode_tensor(name, kind, array.shape, data, transport)


def decode_array(tensor: Tensor) -> Array:
    """A tensor of a frame as an array of its own. `Malformed` if its strings are not what it
    says."""
    shape, kind = tensor.shape, tensor.kind
    if tensor.encoding is Encoding.STRINGS:
        texts = [text.decode("utf-8", "surrogateescape") for text in tensor.strings()]
        flat = np.empty(len(texts), object)
        flat[:] = texts
        return flat.reshape(shape)
    if tensor.encoding is Encoding.INT8_ROWS:
        return _from_rows(tensor)
    if tensor.encoding is Encoding.FP16:
        return np.frombuffer(tensor.data(), "<f2").reshape(shape).astype(np.float32)
    if bits_of(kind) < 8:
        return _unpack(kind, tensor)
    data = np.frombuffer(tensor.data(), DTYPES[kind])
    return data.reshape(shape).copy()


def _utf8(text: object) -> bytes:
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        return text.encode("utf-8", "surrogateescape")
    raise ValueError(f"{text!r} is no string")


def _from_rows(tensor: Tensor) -> Array:
    scales, values = tensor.rows()
    whole = np.frombuffer(values, "i1").reshape(tensor.shape).astype(np.float32)
    whole *= np.frombuffer(scales, "<f4").reshape((*tensor.shape[:-1], 1))
    return whole


def _check_range(kind: Element, array: Array) -> None:
    bits = bits_of(kind)
    if bits >= 8 or not array.size:
        return
    low = -(1 << (bits - 1)) if kind in _SIGNED else 0
    high = low + (1 << bits) - 1
    if array.min() < low or array.max() > high:
        raise ValueError(f"values of {kind.name} lie between {low} and {high}")


def _pack(array: Array, bits: int) -> bytes:
    """Elements of 4 or 2 bits into bytes, the first in the lowest bits, as ONNX has them."""
    flat = array.reshape(-1)
    per_byte = 8 // bits
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, "u1")
    padded[: flat.size] = flat.view("u1") & ((1 << bits) - 1)
    columns = padded.reshape(-1, per_byte)
    packed = np.zeros(len(columns), "u1")
    for index in range(per_byte):
        packed |= columns[:, index] << (bits * index)
    return packed.tobytes()


def _unpack(kind: Element, tensor: Tensor) -> Array:
    bits = bits_of(kind)
    packed = np.frombuffer(tensor.data(), "u1")
    columns = [(packed >> (bits * index)) & ((1 << bits) - 1) for index in range(8 // bits)]
    flat = np.stack(columns, axis=1).reshape(-1)[: math.prod(tensor.shape)].astype("u1")
    if len(flat) != math.prod(tensor.shape):
        raise Malformed(f"{tensor.name}: too few bytes for {list(tensor.shape)}")
    if kind not in _SIGNED:
        return flat.reshape(tensor.shape)
    shift = 8 - bits
    return ((flat << shift).astype("u1").view("i1") >> shift).reshape(tensor.shape)
