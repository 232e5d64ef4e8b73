"""Tensors as they travel: encoded in planes, and kept so until someone asks for their data.

A tensor that only passes through a device is copied from frame to frame in this form. Lossless
encodings are chosen here (see `wire.planes`); for the lossy ones, whoever has numpy converts and
hands the bytes over. Says nothing about the bytes of a frame around them (see `wire.frames`).
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from wire.elements import Element, bits_of, itemsize_of, nbytes_of
from wire.errors import Malformed
from wire.planes import Buffer, Lossless, Plane, encode_planes, encode_whole, merge

MAX_SHAPE_NBYTES = 1 << 62  # of a shape without its zeros: more, and no array type can hold it


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


def encode_tensor(
    name: str,
    kind: Element,
    shape: Sequence[int],
    data: Buffer,
    transport: Lossless = "auto",
    link_nbytes_per_s: float | None = None,
) -> Tensor:
    """A tensor from its contiguous little-endian bytes, without loss. It may keep a view of
    `data`, which must not change before the frame is encoded.

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


def check_sizes(
    name: str, kind: Element, shape: tuple[int, ...], encoding: Encoding, sizes: tuple[int, ...]
) -> None:
    """The shape is one that arrays can have, and the planes' raw lengths are what it says."""
    if math.prod(max(1, dim) for dim in shape) * max(1, itemsize_of(kind)) > MAX_SHAPE_NBYTES:
        raise Malformed(f"{name}: no tensor has the shape {list(shape)}")
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
