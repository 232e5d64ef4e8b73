"""Frames: an activation as bytes. A short header, then the planes of each tensor.

Little-endian throughout. `encode_frame` and `decode_frame` are inverse; `peek` reads the header
alone; `rehead` changes the run's settings without touching a plane. Decoding checks each length,
and the product of each shape, against the caller's limit before anything is allocated, and
inflates with a bound. Tensors are kept encoded until asked for, so that what only passes through
a device is copied as it came. Says nothing about topics or parts (see `wire.parts`).

Header: magic, header bytes (u32), CRC-32 of all that follows (u32; the check sums inside zlib
streams miss some changes of exponents, and raw planes have none), flags (u8: 1 exact, 2 barrier;
the six bits above tell one less than the items that may be computed at once), transport (u8),
tensors (u16), model digest (32 bytes), item, cut, attempt (u32 each), run (u8 length, UTF-8).
Then per tensor: name (u16 length, UTF-8), element (u8), encoding (u8), rank (u8), dims (u64 each),
planes (u8), and per plane: deflated (u8), raw bytes (u64), encoded bytes (u64).
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wire.elements import Element, element, nbytes_of
from wire.errors import Malformed, TooLarge
from wire.frame_head import MAX_BATCH, MAX_RANK, FrameHead, FrameSettings, TensorHead
from wire.ids import ActivationId, check_digest, is_name
from wire.planes import Buffer, Plane
from wire.tensors import (
    Encoding,
    Tensor,
    check_sizes,
    encode_lossy_fp16,
    encode_lossy_int8,
    encode_strings,
    encode_tensor,
)
from wire.transport import TRANSPORTS

__all__ = [
    "ATTEMPT_NBYTES",
    "Encoding",
    "Frame",
    "Tensor",
    "attempt_of",
    "decode_frame",
    "encode_frame",
    "encode_lossy_fp16",
    "encode_lossy_int8",
    "encode_strings",
    "encode_tensor",
    "head_of",
    "peek",
    "rehead",
]

MAGIC = b"CPF1"
MAX_HEADER_NBYTES = 1 << 20
MAX_TENSORS = 4096
MAX_NAME_NBYTES = (1 << 16) - 1
MAX_PLANES = 16
REMEMBERED_TABLES, REMEMBERED_NBYTES = 64, 1 << 10

_START = struct.Struct("<4sII")
_FIXED = struct.Struct("<BBH32sIIIB")
_TENSOR = struct.Struct("<BBB")
_PLANE = struct.Struct("<BQQ")
_NAME_NBYTES = struct.Struct("<H")
_DIMS = tuple(struct.Struct(f"<{rank}QB") for rank in range(MAX_RANK + 1))  # and planes
_ENCODINGS = {int(encoding): encoding for encoding in Encoding}
ATTEMPT_NBYTES = _START.size + _FIXED.size  # of a frame's start tell its attempt


@dataclass(frozen=True, slots=True)
class Frame:
    """An activation of one item at one cut, of the model with this digest."""

    model: str
    activation: ActivationId
    attempt: int
    settings: FrameSettings
    tensors: tuple[Tensor, ...]

    @property
    def raw_nbytes(self) -> int:
        return sum(tensor.raw_nbytes for tensor in self.tensors)

    def tensor(self, name: str) -> Tensor:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise Malformed(f"frame {self.activation} has no tensor {name!r}")


# --- frames -----------------------------------------------------------------------------------


def encode_frame(frame: Frame) -> bytes:
    """The frame's bytes. `ValueError` if something in it does not fit the header."""
    start = _fields(
        frame.model, frame.activation, frame.attempt, frame.settings, len(frame.tensors)
    )
    heads = b"".join(map(_tensor_head, frame.tensors))
    nbytes = _START.size + len(start) + len(heads)
    if nbytes > MAX_HEADER_NBYTES or len(frame.tensors) > MAX_TENSORS:
        raise ValueError(f"{frame.activation}: {len(frame.tensors)} tensors need too long a header")
    planes = [plane.data for tensor in frame.tensors for plane in tensor.planes]
    return _join(nbytes, [start, heads, *planes])


def _fields(
    model: str, activation: ActivationId, attempt: int, settings: FrameSettings, tensors: int
) -> bytes:
    """The header's fields up to the tensors."""
    if not is_name(activation.run):
        raise ValueError(f"a run called {activation.run!r} cannot travel")
    if not 1 <= settings.batch <= MAX_BATCH:
        raise ValueError(f"{settings.batch} items at once; 1 to {MAX_BATCH} can be asked for")
    run = activation.run.encode()
    try:
        fixed = _FIXED.pack(
            settings.exact | settings.barrier << 1 | settings.batch - 1 << 2,
            TRANSPORTS.index(settings.transport),
            tensors,
            bytes.fromhex(check_digest(model)),
            activation.item,
            activation.cut,
            attempt,
            len(run),
        )
    except struct.error as error:
        raise ValueError(f"{activation} of attempt {attempt} does not fit: {error}") from None
    return fixed + run


def _join(header_nbytes: int, pieces: list[Buffer]) -> bytes:
    return b"".join([_START.pack(MAGIC, header_nbytes, _checksum(pieces)), *pieces])


def _checksum(pieces: list[Buffer]) -> int:
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return crc


def _tensor_head(tensor: Tensor) -> bytes:
    name = tensor.name.encode()
    rank = len(tensor.shape)
    if len(name) > MAX_NAME_NBYTES or rank > MAX_RANK:
        raise ValueError(f"{tensor.name:.80}: the name or the rank of {rank} is too long")
    pieces = [
        _NAME_NBYTES.pack(len(name)),
        name,
        _TENSOR.pack(tensor.kind, tensor.encoding, rank),
        _DIMS[rank].pack(*tensor.shape, len(tensor.planes)),
    ]
    pieces += [
        _PLANE.pack(plane.deflated, plane.raw_nbytes, len(plane.data)) for plane in tensor.planes
    ]
    return b"".join(pieces)


def decode_frame(data: Buffer, limit_nbytes: int) -> Frame:
    """The frame in `data`, whose tensors keep views of it.

    `TooLarge` if its tensors would decode to more than `limit_nbytes`; `Malformed` if anything
    is not as the format says, bytes left over included.
    """
    view = memoryview(data)
    header, layouts, offset = _read_header(view)
    if header.raw_nbytes > limit_nbytes:
        raise TooLarge(
            f"frame {header.activation} holds {header.raw_nbytes} bytes of tensors, "
            f"over the limit of {limit_nbytes}"
        )
    tensors = []
    for head, layout in zip(header.tensors, layouts, strict=True):
        planes = []
        for deflated, raw_nbytes, nbytes in layout.planes:
            planes.append(Plane(view[offset : offset + nbytes], deflated, raw_nbytes))
            offset += nbytes
        tensors.append(Tensor(head.name, layout.kind, head.shape, layout.encoding, tuple(planes)))
    if offset != len(view):
        raise Malformed(f"frame {header.activation}: {len(view)} bytes, but {offset} announced")
    if zlib.crc32(view[_START.size :]) != _START.unpack_from(view)[2]:
        raise Malformed(f"frame {header.activation} was altered on its way")
    return Frame(header.model, header.activation, header.attempt, header.settings, tuple(tensors))


def peek(data: Buffer) -> FrameHead:
    """The header alone, its fields checked; planes and check sum are not touched."""
    return _read_header(memoryview(data))[0]


def attempt_of(data: Buffer) -> int:
    """The attempt alone, of a frame that was read or made here before."""
    return int(_FIXED.unpack_from(data, _START.size)[6])


def head_of(frame: Frame, nbytes: int) -> FrameHead:
    """What `peek` says of the frame once it is encoded as `nbytes`."""
    heads = tuple(TensorHead(each.name, each.kind, each.shape) for each in frame.tensors)
    return _head(
        frame.model,
        frame.activation,
        frame.attempt,
        frame.settings,
        nbytes,
        frame.raw_nbytes,
        heads,
    )


def _head(
    model: str,
    activation: ActivationId,
    attempt: int,
    settings: FrameSettings,
    nbytes: int,
    raw_nbytes: int,
    heads: tuple[TensorHead, ...],
) -> FrameHead:
    return FrameHead(
        model=model,
        activation=activation,
        attempt=attempt,
        exact=settings.exact,
        barrier=settings.barrier,
        nbytes=nbytes,
        raw_nbytes=raw_nbytes,
        tensors=heads,
        transport=settings.transport,
        batch=settings.batch,
    )


def rehead(data: Buffer, attempt: int, settings: FrameSettings) -> bytes:
    """The same frame with another attempt and other settings; planes are copied as they are."""
    view = memoryview(data)
    header, _, offset = _read_header(view)
    start = _fields(header.model, header.activation, attempt, settings, len(header.tensors))
    return _join(offset, [start, view[_START.size + len(start) :]])


# --- reading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    kind: Element
    encoding: Encoding
    raw_nbytes: int
    planes: tuple[tuple[bool, int, int], ...]


@dataclass(frozen=True, slots=True)
class _Tensors:
    heads: tuple[TensorHead, ...]
    layouts: tuple[_Layout, ...]
    raw_nbytes: int


class _Reader:
    """Takes fields off a header of known length; `Malformed` rather than read beyond it."""

    def __init__(self, view: memoryview, offset: int, end: int) -> None:
        self.view = view
        self.offset = offset
        self.end = end

    def _pass(self, nbytes: int) -> int:
        """Where the next `nbytes` begin."""
        start = self.offset
        self.offset += nbytes
        if self.offset > self.end:
            raise Malformed("a frame's header is cut short")
        return start

    def unpack(self, fields: struct.Struct) -> tuple[Any, ...]:
        return fields.unpack_from(self.view, self._pass(fields.size))

    def text(self, nbytes: int) -> str:
        start = self._pass(nbytes)
        try:
            return str(self.view[start : self.offset], "utf-8")
        except UnicodeDecodeError:
            raise Malformed("a name in a frame's header is not UTF-8") from None


def _read_header(view: memoryview) -> tuple[FrameHead, tuple[_Layout, ...], int]:
    if len(view) < _START.size + _FIXED.size:
        raise Malformed(f"{len(view)} bytes are too few for a frame")
    magic, nbytes, _ = _START.unpack_from(view)
    if magic != MAGIC:
        raise Malformed("not a frame, or one of another version")
    if nbytes > min(MAX_HEADER_NBYTES, len(view)):
        raise Malformed(f"a frame's header of {nbytes} bytes does not fit")
    reader = _Reader(view, _START.size, nbytes)
    fixed = reader.unpack(_FIXED)
    flags, transport, count, model, item, cut, attempt, run_nbytes = fixed
    if transport >= len(TRANSPORTS) or count > MAX_TENSORS:
        raise Malformed("a frame's transport or tensor count is out of range")
    activation = ActivationId(reader.text(run_nbytes), item, cut)
    if not is_name(activation.run):
        raise Malformed(f"a frame of a run called {activation.run!r:.80}")
    settings = FrameSettings(
        bool(flags & 1), bool(flags & 2), TRANSPORTS[transport], (flags >> 2) + 1
    )
    tensors = _tensors_in(bytes(view[reader.offset : nbytes]), count)
    digest, raw_nbytes = check_digest(model.hex()), tensors.raw_nbytes
    head = _head(digest, activation, attempt, settings, len(view), raw_nbytes, tensors.heads)
    return head, tensors.layouts, nbytes


def _tensors_in(table: bytes, count: int) -> _Tensors:
    return (_remembered if len(table) <= REMEMBERED_NBYTES else _read_tensors)(table, count)


def _read_tensors(table: bytes, count: int) -> _Tensors:
    """What `table` says of `count` tensors, which must be all of it."""
    reader = _Reader(memoryview(table), 0, len(table))
    pairs = [_read_tensor(reader) for _ in range(count)]
    if reader.offset != len(table):
        raise Malformed("a frame's header is longer than its fields")
    heads, layouts = tuple(head for head, _ in pairs), tuple(layout for _, layout in pairs)
    if len({head.name for head in heads}) != count:
        raise Malformed("two tensors of a frame have the same name")
    return _Tensors(heads, layouts, sum(layout.raw_nbytes for layout in layouts))


# Frames of one run at one cut say the same unless a plane was deflated: half of reading a header.
_remembered = lru_cache(REMEMBERED_TABLES)(_read_tensors)


def _read_tensor(reader: _Reader) -> tuple[TensorHead, _Layout]:
    (name_nbytes,) = reader.unpack(_NAME_NBYTES)
    name = reader.text(name_nbytes)
    number, code, rank = reader.unpack(_TENSOR)
    kind, encoding = element(number), _ENCODINGS.get(code)
    if encoding is None or rank > MAX_RANK:
        raise Malformed(f"{name}: unknown encoding {code}, or rank {rank} over {MAX_RANK}")
    *dims, plane_count = reader.unpack(_DIMS[rank])
    shape = tuple(dims)
    if plane_count > MAX_PLANES:
        raise Malformed(f"{name}: {plane_count} planes")
    planes = tuple(_read_plane(reader, name) for _ in range(plane_count))
    sizes = tuple(raw for _, raw, _ in planes)
    check_sizes(name, kind, shape, encoding, sizes)
    raw_nbytes = sum(sizes) if kind is Element.STRING else nbytes_of(kind, math.prod(shape))
    layout = _Layout(kind, encoding, raw_nbytes, planes)
    return TensorHead(name, kind, shape), layout


def _read_plane(reader: _Reader, name: str) -> tuple[bool, int, int]:
    deflated, raw_nbytes, nbytes = reader.unpack(_PLANE)
    smaller = nbytes < raw_nbytes if deflated else nbytes == raw_nbytes
    if deflated > 1 or not smaller:
        raise Malformed(f"{name}: a plane of {raw_nbytes} bytes is said to take {nbytes}")
    return bool(deflated), raw_nbytes, nbytes
