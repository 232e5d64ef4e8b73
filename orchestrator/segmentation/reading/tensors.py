"""What a TensorProto says about itself: its size, where its bytes are, whether it is external."""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx
from onnx import numpy_helper

from orchestrator.segmentation.reading.skeleton import INLINE_NBYTES
from wire.elements import Element, element, nbytes_of
from wire.errors import InvalidModel, Malformed

INTEGERS = frozenset(
    {Element.INT8, Element.INT16, Element.INT32, Element.INT64}
    | {Element.UINT8, Element.UINT16, Element.UINT32, Element.UINT64, Element.BOOL}
)
MAX_INLINE_LIST_NBYTES = 64 << 10  # no shape is longer; a longer list is a table
MAX_TENSOR_NBYTES = 1 << 40  # beyond this a declared shape is taken for a lie


@dataclass(frozen=True, slots=True)
class ExternalRange:
    """A stretch of a file beside the model; `length` None says up to what the shape needs."""

    location: str
    offset: int
    length: int | None


def element_of(tensor: onnx.TensorProto) -> Element:
    try:
        return element(tensor.data_type)
    except Malformed:
        raise InvalidModel(
            f"weight {tensor.name!r} has element type {tensor.data_type}, which is unknown"
        ) from None


def tensor_nbytes(tensor: onnx.TensorProto) -> int:
    """Bytes that the declared shape takes; strings count what is there."""
    kind = element_of(tensor)
    if kind is Element.STRING:
        return sum(len(text) for text in tensor.string_data)
    if any(dim < 0 for dim in tensor.dims):
        raise InvalidModel(f"weight {tensor.name!r} has a negative dimension")
    nbytes = nbytes_of(kind, math.prod(tensor.dims))
    if nbytes > MAX_TENSOR_NBYTES:
        raise InvalidModel(f"weight {tensor.name!r} claims {nbytes} bytes, which cannot be true")
    return nbytes


def stays_inline(tensor: onnx.TensorProto) -> bool:
    """Whether a weight belongs inside the graph: small ones, strings, and lists of integers,
    which may feed shapes and which ONNX Runtime then reads before it maps anything."""
    kind, nbytes = element_of(tensor), tensor_nbytes(tensor)
    listed = len(tensor.dims) <= 1 and kind in INTEGERS and nbytes <= MAX_INLINE_LIST_NBYTES
    return nbytes < INLINE_NBYTES or listed or kind is Element.STRING


def is_external(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_range(tensor: onnx.TensorProto) -> ExternalRange:
    """Where an external tensor's bytes are said to be. Raises `InvalidModel` if that is unclear."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return ExternalRange(
        location=entries.get("location", ""),
        offset=_natural(tensor, entries.get("offset", "0")),
        length=_natural(tensor, entries["length"]) if "length" in entries else None,
    )


def _natural(tensor: onnx.TensorProto, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidModel(
            f"weight {tensor.name!r} has {text[:40]!r} as external offset or length; "
            "a whole number is needed"
        )
    return int(text)


def refer(tensor: onnx.TensorProto, location: str, offset: int, nbytes: int) -> None:
    """Makes `tensor` external, at that place."""
    for name in (
        "raw_data",
        "float_data",
        "int32_data",
        "int64_data",
        "double_data",
        "uint64_data",
        "external_data",
    ):
        tensor.ClearField(name)
    for key, value in (("location", location), ("offset", offset), ("length", nbytes)):
        tensor.external_data.add(key=key, value=str(value))
    tensor.data_location = onnx.TensorProto.EXTERNAL


def embed(tensor: onnx.TensorProto, raw: bytes) -> None:
    """Puts an external tensor's bytes into the graph."""
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = raw


def make_raw(tensor: onnx.TensorProto) -> None:
    """Typed data fields (float_data and its kin) become raw_data; strings stay."""
    if is_external(tensor) or tensor.HasField("raw_data") or element_of(tensor) is Element.STRING:
        return
    raw = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
    if len(raw) != tensor_nbytes(tensor):
        raise InvalidModel(
            f"weight {tensor.name!r} holds {len(raw)} bytes, not what its shape says"
        )
    for name in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(name)
    tensor.raw_data = raw
