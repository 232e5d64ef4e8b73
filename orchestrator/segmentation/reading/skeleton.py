"""A model's protobuf without its large tensors, read without loading the file.

`read_skeleton` walks the bytes of an ONNX file and copies all but raw tensor data of 1 KiB and
more, in whose place it puts an external reference to the very file and offset. It seeks past
that data (a memory map would bring it in: 2 MB around each byte that is looked at), so a model
file of any size costs a few megabytes here, and every large tensor is external from then on.

Follows the field numbers of onnx.proto; refuses bytes that do not parse. It does not judge the
model: `source` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from wire.errors import InvalidModel
from wire.protobuf import (
    BYTES,
    FIXED_NBYTES,
    VARINT,
    VARINT_NBYTES,
    parse_varint,
    put_bytes,
    put_number,
    varint,
)

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
_LISTS = (7, 8, 9)  # an attribute's floats, ints and strings, each perhaps a field of its own
_RAW_DATA = 9
_EXTERNAL_DATA = 13
_DATA_LOCATION = 14
_HEAD_NBYTES = 2 * VARINT_NBYTES  # a field's key, and its number or length


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
    """A message to come: stretches of the source, neighbours joined, and made bytes."""

    parts: list[bytes | tuple[int, int]] = field(default_factory=list)
    nbytes: int = 0

    def copy(self, start: int, end: int) -> None:
        last = self.parts[-1] if self.parts else b""
        if isinstance(last, tuple) and last[1] == start:
            self.parts[-1] = (last[0], end)
        else:
            self.parts.append((start, end))
        self.nbytes += end - start

    def put(self, made: bytes) -> None:
        self.parts.append(made)
        self.nbytes += len(made)

    def nest(self, number: int, child: _Pieces) -> None:
        self.put(varint(number << 3 | BYTES) + varint(child.nbytes))
        self.parts.extend(child.parts)
        self.nbytes += child.nbytes

    def joined(self, file: BinaryIO) -> bytes:
        return b"".join(
            part if isinstance(part, bytes) else _read(file, *part) for part in self.parts
        )


def read_skeleton(file: BinaryIO, nbytes: int, location: str) -> bytes:
    """The ModelProto in the first `nbytes` bytes of `file`, its large raw tensors replaced by
    references to `location`.

    Raises `InvalidModel` if the bytes are no protobuf message or nest too deeply.
    """
    return _rewrite(file, 0, nbytes, "model", location, 0).joined(file)


def _read(file: BinaryIO, start: int, end: int) -> bytes:
    file.seek(start)
    found = file.read(end - start)
    if len(found) != end - start:
        raise InvalidModel(_not_onnx(start))
    return found


def _rewrite(file: BinaryIO, start: int, end: int, kind: str, location: str, depth: int) -> _Pieces:
    if depth > MAX_DEPTH:
        raise InvalidModel(f"the model nests graphs more than {MAX_DEPTH} deep; simplify it")
    pieces = _Pieces()
    children = _CHILDREN[kind]
    for entry in _fields(file, start, end):
        if kind == "attribute" and entry.number in _LISTS:
            pieces.copy(entry.start, end)  # a forest's has millions, and no tensor is beside them
            break
        child = children.get(entry.number) if entry.wire_type == BYTES else None
        if child is None or entry.end - entry.payload < INLINE_NBYTES:
            pieces.copy(entry.start, entry.end)
        elif child == "tensor":
            pieces.nest(entry.number, _tensor(file, entry, location))
        else:
            inner = _rewrite(file, entry.payload, entry.end, child, location, depth + 1)
            pieces.nest(entry.number, inner)
    return pieces


def _tensor(file: BinaryIO, entry: _Field, location: str) -> _Pieces:
    fields = list(_fields(file, entry.payload, entry.end))
    raw = [one for one in fields if one.number == _RAW_DATA and one.wire_type == BYTES]
    external = any(one.number in (_EXTERNAL_DATA, _DATA_LOCATION) for one in fields)
    pieces = _Pieces()
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
    entries = b"".join(
        put_bytes(_EXTERNAL_DATA, put_bytes(1, _utf8(k)) + put_bytes(2, _utf8(v))) for k, v in pairs
    )
    return entries + put_number(_DATA_LOCATION, 1)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _fields(file: BinaryIO, start: int, end: int) -> Iterator[_Field]:
    at = start
    while at < end:
        head = _read(file, at, min(at + _HEAD_NBYTES, end))
        key, used = _parse_varint(head, 0, at)
        number, wire_type = key >> 3, key & 7
        payload = stop = at + used
        if wire_type == BYTES:
            nbytes, used = _parse_varint(head, used, at)
            payload = at + used
            stop = payload + nbytes
        elif wire_type == VARINT:
            stop = at + _parse_varint(head, used, at)[1]
        else:
            stop += FIXED_NBYTES.get(wire_type, end)
        if stop > end or number == 0:
            raise InvalidModel(_not_onnx(at))
        yield _Field(number, wire_type, at, payload, stop)
        at = stop


def _parse_varint(head: bytes, start: int, at: int) -> tuple[int, int]:
    """The number that begins at `head[start]`, and where it ends; `at` is for the error."""
    found = parse_varint(head, start)
    if found is None:
        raise InvalidModel(_not_onnx(at))
    return found


def _not_onnx(at: int) -> str:
    return (
        f"not an ONNX file, or a truncated one (no valid field at byte {at}); "
        "export or fetch it again"
    )
