"""Frames: an activation as bytes. A short header, then the planes of each tensor.

Little-endian throughout. `encode_frame` and `decode_frame` are inverse; `peek` reads the header
alone; `rehead` changes the run's settings without touching a plane. Decoding checks each length,
and the product of each shape, against the caller's limit before anything is allocated, and
inflates with a bound. Tensors are kept encoded until asked for, so that what only passes through
a device is copied as it came. Says nothing about topics or parts (see `wire.parts`).

Header: magic, header bytes (u32), flags (u8: 1 exact, 2 barrier), transport (u8), tensors (u16),
model digest (32 bytes), item, cut, attempt (u32 each), run (u8 length, UTF-8). Then per tensor:
name (u16 length, UTF-8), element (u8), encoding (u8), rank (u8), dims (u64 each), planes (u8), and
per plane: deflated (u8), raw bytes (u64), encoded bytes (u64).
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from wire.elements import Element, bits_of, element, itemsize_of, nbytes_of
from wire.errors import Malformed, TooLarge
from wire.ids import ActivationId, check_digest
from wire.messages.requests import Transport
from wire.planes import Buffer, Lossless, Plane, encode_planes, encode_whole, merge

MAGIC = b"CPF1"
MAX_HEADER_NBYTES = 1 << 20
MAX_TENSORS = 4096
MAX_RANK = 32
MAX_PLANES = 16
TRANSPORTS: tuple[Transport, ...] = ("auto", "zlib", "raw", "fp16", "int8")

_START = struct.Struct("<4sI")
_FIXED = struct.Struct("<BBH32sIIIB")
_TENSOR = struct.Struct("<BBB")
_PLANE = struct.Struct("<BQQ")


class Encoding(IntEnum):
    """How a tensor's planes make up its data. FP16 and INT8_ROWS are lossy and opt-in: their
    planes hold float16 bytes, or float32 scales per row and int8 values; who decodes converts."""

    RAW = 0
    PLANES = 1
    STRINGS = 2
    FP16 = 3
    INT8_ROWS = 4


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a frame, kept encoded. `shape` () is a scalar; a dimension may be 0."""

    name: str
    kind: Element
    shape: tuple[int, ...]
    encoding: Encoding
    planes: tuple[Plane, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def raw_nbytes(self) -> int:
        """Bytes of the data once decoded; for strings, of their lengths and contents."""
        if self.kind is Element.STRING:
            return sum(plane.raw_nbytes for plane in self.planes)
        return nbytes_of(self.kind, self.count)

    @property
    def encoded_nbytes(self) -> int:
        return sum(len(plane.data) for plane in self.planes)

    def data(self) -> Buffer:
        """Contiguous little-endian bytes: of `kind`, or of float16 if the encoding is FP16."""
        if self.encoding in (Encoding.STRINGS, Encoding.INT8_ROWS):
            raise ValueError(f"{self.name} is encoded as {self.encoding.name}")
        parts = [plane.decoded() for plane in self.planes]
        return parts[0] if len(parts) == 1 else merge(parts)

    def rows(self) -> tuple[Buffer, Buffer]:
        """Of INT8_ROWS: float32 scales (one per row of the last dimension) and int8 values."""
        scales, values = self.planes
        return scales.decoded(), values.decoded()

    def strings(self) -> list[bytes]:
        """The elements of a string tensor, each UTF-8."""
        lengths, content = (plane.decoded() for plane in self.planes)
        sizes = struct.unpack(f"<{self.count}I", lengths)
        if sum(sizes) != len(content):
            raise Malformed(f"{self.name}: string lengths do not match their bytes")
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + size)
        return [bytes(content[start:end]) for start, end in itertools.pairwise(ends)]


@dataclass(frozen=True, slots=True)
class Settings:
    """A run's settings, which travel with its items from hop to hop."""

    exact: bool = False
    barrier: bool = False
    transport: Transport = "auto"

    @property
    def lossless(self) -> Lossless:
        """What a tensor that must keep its bits is sent with."""
        if self.transport == "fp16" or self.transport == "int8":
            return "auto"
        return self.transport


@dataclass(frozen=True, slots=True)
class Frame:
    """An activation of one item at one cut, of the model with this digest."""

    model: str
    activation: ActivationId
    attempt: int
    settings: Settings
    tensors: tuple[Tensor, ...]

    @property
    def raw_nbytes(self) -> int:
        return sum(tensor.raw_nbytes for tensor in self.tensors)

    def tensor(self, name: str) -> Tensor:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise Malformed(f"frame {self.activation} has no tensor {name!r}")


@dataclass(frozen=True, slots=True)
class TensorHead:
    """What a frame's header says of a tensor."""

    name: str
    kind: Element
    shape: tuple[int, ...]
    raw_nbytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """A frame without its planes."""

    model: str
    activation: ActivationId
    attempt: int
    settings: Settings
    tensors: tuple[TensorHead, ...]
    nbytes: int

    @property
    def raw_nbytes(self) -> int:
        return sum(tensor.raw_nbytes for tensor in self.tensors)


# --- tensors ----------------------------------------------------------------------------------


def encode_tensor(
    name: str,
    kind: Element,
    shape: Sequence[int],
    data: Buffer,
    transport: Lossless = "auto",
    link_nbytes_per_s: float | None = None,
) -> Tensor:
    """A tensor from its contiguous little-endian bytes, without loss.

    `ValueError` if `data` is not as long as `shape` says.
    """
    dims = tuple(shape)
    view = memoryview(data).cast("B") if len(data) else b""
    if len(view) != nbytes_of(kind, math.prod(dims)):
        raise ValueError(f"{name}: {len(view)} bytes do not fill {kind.name} {list(dims)}")
    itemsize = itemsize_of(kind)
    if itemsize > 1 and len(view):
        planes = encode_planes(view, itemsize, transport, link_nbytes_per_s)
        if planes is not None:
            return Tensor(name, kind, dims, Encoding.PLANES, planes)
        return Tensor(name, kind, dims, Encoding.RAW, (Plane(view, False, len(view)),))
    whole = encode_whole(view, transport, link_nbytes_per_s)
    return Tensor(name, kind, dims, Encoding.RAW, (whole,))


def encode_strings(
    name: str,
    shape: Sequence[int],
    strings: Sequence[bytes],
    transport: Lossless = "auto",
    link_nbytes_per_s: float | None = None,
) -> Tensor:
    """A string tensor from its elements in row-major order, each UTF-8."""
    if len(strings) != math.prod(shape):
        raise ValueError(f"{name}: {len(strings)} strings do not fill {list(shape)}")
    lengths = struct.pack(f"<{len(strings)}I", *map(len, strings))
    planes = tuple(
        encode_whole(part, transport, link_nbytes_per_s) for part in (lengths, b"".join(strings))
    )
    return Tensor(name, Element.STRING, tuple(shape), Encoding.STRINGS, planes)


def encode_lossy_fp16(name: str, shape: Sequence[int], halves: Buffer) -> Tensor:
    """A float32 tensor of `shape` that travels as the float16 bytes given."""
    stored = encode_tensor(name, Element.FLOAT16, shape, halves)
    planes = stored.planes
    return Tensor(name, Element.FLOAT, tuple(shape), Encoding.FP16, planes)


def encode_lossy_int8(name: str, shape: Sequence[int], scales: Buffer, values: Buffer) -> Tensor:
    """A float32 tensor that travels as one int8 a value and one float32 scale a row."""
    dims = tuple(shape)
    if len(values) != math.prod(dims) or len(scales) != 4 * _rows_of(dims):
        raise ValueError(f"{name}: scales or values do not fill {list(dims)}")
    planes = (Plane(scales, False, len(scales)), encode_whole(values, "auto", None))
    return Tensor(name, Element.FLOAT, dims, Encoding.INT8_ROWS, planes)


def _rows_of(shape: tuple[int, ...]) -> int:
    return math.prod(shape[:-1])


# --- frames -----------------------------------------------------------------------------------


def encode_frame(frame: Frame) -> bytes:
    """The frame's bytes. `ValueError` if something in it does not fit the header."""
    run = frame.activation.run.encode()
    flags = frame.settings.exact | frame.settings.barrier << 1
    fixed = _FIXED.pack(
        flags,
        TRANSPORTS.index(frame.settings.transport),
        len(frame.tensors),
        bytes.fromhex(frame.model),
        frame.activation.item,
        frame.activation.cut,
        frame.attempt,
        len(run),
    )
    heads = b"".join(map(_tensor_head, frame.tensors))
    nbytes = _START.size + len(fixed) + len(run) + len(heads)
    if nbytes > MAX_HEADER_NBYTES or len(frame.tensors) > MAX_TENSORS:
        raise ValueError(f"{frame.activation}: {len(frame.tensors)} tensors need too long a header")
    planes = [plane.data for tensor in frame.tensors for plane in tensor.planes]
    return b"".join([_START.pack(MAGIC, nbytes), fixed, run, heads, *planes])


def _tensor_head(tensor: Tensor) -> bytes:
    name = tensor.name.encode()
    rank = len(tensor.shape)
    pieces = [
        struct.pack("<H", len(name)),
        name,
        _TENSOR.pack(tensor.kind, tensor.encoding, rank),
        struct.pack(f"<{rank}QB", *tensor.shape, len(tensor.planes)),
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
        tensors.append(Tensor(head.name, head.kind, head.shape, layout.encoding, tuple(planes)))
    if offset != len(view):
        raise Malformed(f"frame {header.activation}: {len(view)} bytes, but {offset} announced")
    return Frame(header.model, header.activation, header.attempt, header.settings, tuple(tensors))


def peek(data: Buffer) -> Header:
    """The header alone, fully checked; planes are not touched."""
    return _read_header(memoryview(data))[0]


def rehead(data: Buffer, attempt: int, settings: Settings) -> bytes:
    """The same frame with another attempt and other settings; planes are copied as they are."""
    header, _, offset = _read_header(memoryview(data))
    changed = replace(header, attempt=attempt, settings=settings)
    fixed = _FIXED.pack(
        settings.exact | settings.barrier << 1,
        TRANSPORTS.index(settings.transport),
        len(changed.tensors),
        bytes.fromhex(changed.model),
        changed.activation.item,
        changed.activation.cut,
        attempt,
        len(changed.activation.run.encode()),
    )
    rest = memoryview(data)[_START.size + _FIXED.size :]
    return b"".join([_START.pack(MAGIC, offset), fixed, rest])


# --- reading ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    encoding: Encoding
    planes: tuple[tuple[bool, int, int], ...]


class _Reader:
    """Takes fields off a header of known length; `Malformed` rather than read beyond it."""

    def __init__(self, view: memoryview, offset: int, end: int) -> None:
        self.view = view
        self.offset = offset
        self.end = end

    def take(self, nbytes: int) -> memoryview:
        if self.offset + nbytes > self.end:
            raise Malformed("a frame's header is cut short")
        self.offset += nbytes
        return self.view[self.offset - nbytes : self.offset]

    def unpack(self, fields: struct.Struct) -> tuple[int, ...]:
        return fields.unpack(self.take(fields.size))

    def text(self, nbytes: int) -> str:
        try:
            return str(self.take(nbytes), "utf-8")
        except UnicodeDecodeError:
            raise Malformed("a name in a frame's header is not UTF-8") from None


def _read_header(view: memoryview) -> tuple[Header, list[_Layout], int]:
    if len(view) < _START.size + _FIXED.size:
        raise Malformed(f"{len(view)} bytes are too few for a frame")
    magic, nbytes = _START.unpack(view[: _START.size])
    if magic != MAGIC:
        raise Malformed("not a frame, or one of another version")
    if nbytes > min(MAX_HEADER_NBYTES, len(view)):
        raise Malformed(f"a frame's header of {nbytes} bytes does not fit")
    reader = _Reader(view, _START.size, nbytes)
    fixed = _FIXED.unpack(reader.take(_FIXED.size))
    flags, transport, count, model, item, cut, attempt, run_nbytes = fixed
    if flags > 3 or transport >= len(TRANSPORTS) or count > MAX_TENSORS:
        raise Malformed("a frame's flags, transport or tensor count are out of range")
    activation = ActivationId(reader.text(run_nbytes), item, cut)
    settings = Settings(bool(flags & 1), bool(flags & 2), TRANSPORTS[transport])
    heads, layouts = _read_tensors(reader, count)
    if reader.offset != nbytes:
        raise Malformed("a frame's header is longer than its fields")
    digest = check_digest(model.hex())
    header = Header(digest, activation, attempt, settings, tuple(heads), len(view))
    return header, layouts, nbytes


def _read_tensors(reader: _Reader, count: int) -> tuple[list[TensorHead], list[_Layout]]:
    heads: list[TensorHead] = []
    layouts: list[_Layout] = []
    for _ in range(count):
        head, layout = _read_tensor(reader)
        heads.append(head)
        layouts.append(layout)
    if len({head.name for head in heads}) != count:
        raise Malformed("two tensors of a frame have the same name")
    return heads, layouts


def _read_tensor(reader: _Reader) -> tuple[TensorHead, _Layout]:
    (name_nbytes,) = reader.unpack(struct.Struct("<H"))
    name = reader.text(name_nbytes)
    number, encoding, rank = reader.unpack(_TENSOR)
    kind = element(number)
    if encoding not in Encoding.__members__.values() or rank > MAX_RANK:
        raise Malformed(f"{name}: unknown encoding {encoding}, or rank {rank} over {MAX_RANK}")
    shape = reader.unpack(struct.Struct(f"<{rank}Q"))
    (plane_count,) = reader.unpack(struct.Struct("<B"))
    if plane_count > MAX_PLANES:
        raise Malformed(f"{name}: {plane_count} planes")
    planes = tuple(_read_plane(reader, name) for _ in range(plane_count))
    layout = _Layout(Encoding(encoding), planes)
    sizes = tuple(raw for _, raw, _ in planes)
    _check_sizes(name, kind, shape, layout.encoding, sizes)
    raw_nbytes = sum(sizes) if kind is Element.STRING else nbytes_of(kind, math.prod(shape))
    return TensorHead(name, kind, shape, raw_nbytes), layout


def _read_plane(reader: _Reader, name: str) -> tuple[bool, int, int]:
    deflated, raw_nbytes, nbytes = reader.unpack(_PLANE)
    smaller = nbytes < raw_nbytes if deflated else nbytes == raw_nbytes
    if deflated > 1 or not smaller:
        raise Malformed(f"{name}: a plane of {raw_nbytes} bytes is said to take {nbytes}")
    return bool(deflated), raw_nbytes, nbytes


def _check_sizes(
    name: str, kind: Element, shape: tuple[int, ...], encoding: Encoding, sizes: tuple[int, ...]
) -> None:
    """The planes' raw lengths are what the shape says."""
    if sizes not in _possible_sizes(kind, shape, encoding, sizes):
        raise Malformed(f"{name}: planes of {sizes} bytes do not make {kind.name} {list(shape)}")


def _possible_sizes(
    kind: Element, shape: tuple[int, ...], encoding: Encoding, sizes: tuple[int, ...]
) -> list[tuple[int, ...]]:
    count = math.prod(shape)
    if encoding is Encoding.STRINGS or kind is Element.STRING:
        fits = encoding is Encoding.STRINGS and kind is Element.STRING and len(sizes) == 2
        return [(4 * count, sizes[1])] if fits else []
    if encoding is Encoding.RAW:
        return [(nbytes_of(kind, count),)]
    if encoding is Encoding.PLANES:
        return [(count,) * itemsize_of(kind)] if bits_of(kind) > 8 else []
    if kind is not Element.FLOAT:
        return []
    if encoding is Encoding.FP16:
        return [(2 * count,), (count, count)]
    return [(4 * _rows_of(shape), count)] if shape else []
