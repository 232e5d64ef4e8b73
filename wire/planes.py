"""Byte planes: plane k of a tensor holds byte k of every element, and each is deflated or not.

Of fp32 activations only the top byte (sign and exponent) compresses; deflating the whole tensor
costs ten times as much and saves less (measured: 1.08x at 8 to 20 ms against 1.2x at 1.4 ms for
393 KB). So each plane is judged by a sample, and deflated only where that pays. Lossless always;
works on bytes alone, since slices with a step run at C speed and a device may lack numpy.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

from wire.errors import Malformed, TooLarge

Buffer = bytes | bytearray | memoryview
Method = Literal["raw", "huffman", "match"]
Lossless = Literal["auto", "zlib", "raw"]

SMALL_NBYTES = 64  # below this a zlib stream is never smaller
LIGHT_NBYTES = 4 << 10  # tensors below this: a message costs more than deflating them would save
SAMPLE_COUNT = 4 << 10  # elements looked at, so many of each plane's bytes
SAMPLE_PIECES = 4  # from places all over, since padding at one end would mislead
PLANE_HEAD_NBYTES = 17  # what a plane takes in a frame's header
# Deflating and inflating again, in plane bytes a second of one x86 core (Huffman: 125 and 190 MB/s,
# matching at level 1: 45 and 170). Where a link moves bytes faster than this saves them, raw wins.
HUFFMAN_NBYTES_PER_S = 75e6
MATCH_NBYTES_PER_S = 35e6
SLOW_NBYTES_PER_S = 1e5  # taken for a link that is unknown, or when bytes count and time does not


@dataclass(frozen=True, slots=True)
class Plane:
    """Encoded bytes of one plane; a zlib stream if `deflated`. `raw_nbytes` when decoded."""

    data: Buffer
    deflated: bool
    raw_nbytes: int

    def decoded(self) -> Buffer:
        """The plane's raw bytes; `Malformed` unless the stream holds exactly `raw_nbytes`."""
        return inflate(self.data, self.raw_nbytes) if self.deflated else self.data


def split(data: Buffer, itemsize: int) -> list[bytes]:
    """`itemsize` planes of `len(data) / itemsize` bytes each."""
    whole = data if isinstance(data, bytes) else bytes(data)
    return [whole[offset::itemsize] for offset in range(itemsize)]


def merge(planes: list[Buffer]) -> bytearray:
    """Undo `split`."""
    itemsize = len(planes)
    whole = bytearray(itemsize * len(planes[0]))
    for offset, plane in enumerate(planes):
        whole[offset::itemsize] = plane
    return whole


def deflate(data: Buffer, method: Method) -> bytes:
    """`data` as one zlib stream, by Huffman coding alone or with matching at level 1."""
    strategy = zlib.Z_HUFFMAN_ONLY if method == "huffman" else zlib.Z_DEFAULT_STRATEGY
    level = 6 if method == "huffman" else 1
    stream = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
    return stream.compress(data) + stream.flush()


def inflate(data: Buffer, raw_nbytes: int) -> bytes:
    """Exactly `raw_nbytes` from one whole zlib stream; never allocates more than that."""
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(data, raw_nbytes) if raw_nbytes else b""
        # One byte more than allowed would come out here if the stream were a bomb.
        rest = stream.decompress(stream.unconsumed_tail if raw_nbytes else data, 1)
    except zlib.error as error:
        raise Malformed(f"a plane is no zlib stream: {error}") from None
    if rest:
        raise TooLarge(f"a plane inflates to more than its {raw_nbytes} bytes")
    if len(raw) != raw_nbytes or not stream.eof or stream.unused_data:
        raise Malformed(f"a plane does not inflate to its {raw_nbytes} bytes")
    return raw


def judge(sample: Buffer, nbytes: int, transport: Lossless, link: float | None) -> Method:
    """How a plane of `nbytes` that looks like `sample` is there soonest.

    `link` is the measured rate in bytes a second. If it is unknown (None, or 0), or the transport
    is `zlib`, whatever shrinks is deflated.
    """
    if transport == "raw" or nbytes < SMALL_NBYTES or not len(sample):
        return "raw"
    rate = link if transport == "auto" and link else SLOW_NBYTES_PER_S
    if 1 / rate <= 1 / HUFFMAN_NBYTES_PER_S:
        return "raw"  # even a plane that vanished would not pay
    seconds: dict[Method, float] = {
        "raw": 1 / rate,
        "huffman": _ratio(sample, "huffman") / rate + 1 / HUFFMAN_NBYTES_PER_S,
        "match": _ratio(sample, "match") / rate + 1 / MATCH_NBYTES_PER_S,
    }
    return min(seconds, key=seconds.__getitem__)


def _ratio(sample: Buffer, method: Method) -> float:
    overhead = 8  # of a stream's header and check, which a small sample would overweigh
    return max(0, len(deflate(sample, method)) - overhead) / len(sample)


def encode(plane: bytes, method: Method) -> Plane:
    """The plane deflated, if that made it smaller after all."""
    if method != "raw":
        packed = deflate(plane, method)
        if len(packed) < len(plane):
            return Plane(packed, True, len(plane))
    return Plane(plane, False, len(plane))


def encode_whole(data: Buffer, transport: Lossless, link: float | None) -> Plane:
    """Bytes that are not split (strings, lengths, one-byte elements) as a single plane, which
    keeps a view of `data` if it stays raw."""
    light = transport == "auto" and len(data) < LIGHT_NBYTES
    method = "raw" if light else judge(_sample(data, 1), len(data), transport, link)
    return encode(bytes(data), method) if method != "raw" else Plane(data, False, len(data))


def encode_planes(
    data: Buffer, itemsize: int, transport: Lossless, link: float | None
) -> tuple[Plane, ...] | None:
    """The planes of `data`, or None if that saves nothing (then it is best not split)."""
    if transport == "raw" or (transport == "auto" and len(data) < LIGHT_NBYTES):
        return None
    count, sample = len(data) // itemsize, _sample(data, itemsize)
    methods = [
        judge(sample[offset::itemsize], count, transport, link) for offset in range(itemsize)
    ]
    if all(method == "raw" for method in methods):
        return None
    pairs = zip(split(data, itemsize), methods, strict=True)
    planes = tuple(encode(plane, method) for plane, method in pairs)
    taken = sum(len(plane.data) for plane in planes) + PLANE_HEAD_NBYTES * (itemsize - 1)
    return planes if taken < len(data) else None


def _sample(data: Buffer, itemsize: int) -> bytes:
    """Whole elements from several places of `data`, or all of it if that is no more."""
    count = len(data) // itemsize
    if count <= SAMPLE_COUNT:
        return bytes(data)
    length = SAMPLE_COUNT // SAMPLE_PIECES
    starts = (piece * (count - length) // (SAMPLE_PIECES - 1) for piece in range(SAMPLE_PIECES))
    return b"".join(data[start * itemsize : (start + length) * itemsize] for start in starts)
