"""A model's protobuf without its large tensors, read without loading the file.

`read_skeleton` walks the bytes of an ONNX file (a memory map) and copies all but raw tensor data
of 1 KiB and more, in whose place it puts an external reference to the very file and offset. So a
model file of any size costs a few megabytes here, and every large tensor is external from then
on. Follows the protobuf encoding (https://protobuf.dev/programming-guides/encoding) and the
field numbers of onnx.proto; refuses bytes that do not parse. It does not judge the model:
`source` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from wire.errors import InvalidModel

INLINE_NBYTES = 1024  # raw tensor data from this size on leaves the graph
MAX_DEPTH = 64  # nesting of messages; protobuf's own readers stop at 100

# Message -> field number -> message of that field; what is not listed is copied as it is.
_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
_RAW_DATA = 9
_EXTERNAL_DATA = 13
_DATA_LOCATION = 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED_NBYTES = {_FIXED64: 8, _FIXED32: 4}


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message: where its key starts, where its payload starts and ends."""

    number: int
    wire_type: int
    start: int
    payload: int
    end: int


@dataclass(slots=True)
class _Pieces:
    """Bytes to come, as slices; neighbouring slices of the source are joined at the end."""

    data: memoryview
    parts: list[bytes | memoryview] = field(default_factory=list)
    nbytes: int = 0

    def copy(self, start: int, end: int) -> None:
        self.parts.append(self.data[start:end])
        self.nbytes += end - start

    def put(self, made: bytes) -> None:
        self.parts.append(made)
        self.nbytes += len(made)

    def nest(self, number: int, child: _Pieces) -> None:
        self.put(_key(number, _BYTES) + _varint(child.nbytes))
        self.parts.extend(child.parts)
        self.nbytes += child.nbytes


def read_skeleton(data: memoryview, location: str) -> bytes:
    """The ModelProto in `data`, its large raw tensors replaced by references to `location`.

    Raises `InvalidModel` if `data` is no protobuf message or nests too deeply.
    """
    pieces = _rewrite(data, 0, len(data), "model", location, 0)
    return b"".join(pieces.parts)


def _rewrite(
    data: memoryview, start: int, end: int, kind: str, location: str, depth: int
) -> _Pieces:
    if depth > MAX_DEPTH:
        raise InvalidModel(f"the model nests graphs more than {MAX_DEPTH} deep; simplify it")
    pieces = _Pieces(data)
    children = _CHILDREN[kind]
    for entry in _fields(data, start, end):
        child = children.get(entry.number) if entry.wire_type == _BYTES else None
        if child is None or entry.end - entry.payload < INLINE_NBYTES:
            pieces.copy(entry.start, entry.end)
        elif child == "tensor":
            pieces.nest(entry.number, _tensor(data, entry, location))
        else:
            inner = _rewrite(data, entry.payload, entry.end, child, location, depth + 1)
            pieces.nest(entry.number, inner)
    return pieces


def _tensor(data: memoryview, entry: _Field, location: str) -> _Pieces:
    fields = list(_fields(data, entry.payload, entry.end))
    raw = [one for one in fields if one.number == _RAW_DATA and one.wire_type == _BYTES]
    external = any(one.number in (_EXTERNAL_DATA, _DATA_LOCATION) for one in fields)
    pieces = _Pieces(data)
    if external or not raw or raw[-1].end - raw[-1].payload < INLINE_NBYTES:
        pieces.copy(entry.payload, entry.end)
        return pieces
    for one in fields:
        if one.number != _RAW_DATA:
            pieces.copy(one.start, one.end)
    pieces.put(_reference(location, raw[-1].payload, raw[-1].end - raw[-1].payload))
    return pieces


def _reference(location: str, offset: int, nbytes: int) -> bytes:
    """The fields external_data and data_location = EXTERNAL of a TensorProto."""
    pairs = (("location", location), ("offset", str(offset)), ("length", str(nbytes)))
    entries = b"".join(_blob(_EXTERNAL_DATA, _blob(1, _utf8(k)) + _blob(2, _utf8(v)))
                       for k, v in pairs)  # fmt: skip
    return entries + _key(_DATA_LOCATION, _VARINT) + _varint(1)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _blob(number: int, payload: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(payload)) + payload


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _fields(data: memoryview, start: int, end: int) -> Iterator[_Field]:
    at = start
    while at < end:
        key, payload = _read_varint(data, at, end)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise InvalidModel(_not_onnx(at))
        if wire_type == _BYTES:
            nbytes, payload = _read_varint(data, payload, end)
            stop = payload + nbytes
        elif wire_type == _VARINT:
            stop = _read_varint(data, payload, end)[1]
        elif wire_type in _FIXED_NBYTES:
            stop = payload + _FIXED_NBYTES[wire_type]
        else:
            raise InvalidModel(_not_onnx(at))
        if stop > end:
            raise InvalidModel(_not_onnx(at))
        yield _Field(number, wire_type, at, payload, stop)
        at = stop


def _read_varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= end:
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise InvalidModel(_not_onnx(at))


def _not_onnx(at: int) -> str:
    return f"not an ONNX file, or a truncated one: no valid field at byte {at}"
