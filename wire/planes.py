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
SAMPLE_NBYTES = 8 << 10
WORTH_RATIO = 0.95  # a plane that keeps more than this of its size is left raw
MATCH_GAIN = 0.85  # matching must beat Huffman coding by this to be worth its time
# Deflating, moving and inflating a plane, in plane bytes a second on a slow core (a fast one
# reached 760 MB/s to deflate); a link faster than what this saves is better served raw.
HUFFMAN_NBYTES_PER_S = 150e6
MATCH_NBYTES_PER_S = 40e6


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
    """How a plane of `nbytes` that looks like `sample` is best sent.

    `link` is the measured rate in bytes a second; None says unknown, and bytes count most.
    """
    if transport == "raw" or nbytes < SMALL_NBYTES or not len(sample):
        return "raw"
    method, ratio = _best_method(sample)
    if ratio > WORTH_RATIO:
        return "raw"
    rate = HUFFMAN_NBYTES_PER_S if method == "huffman" else MATCH_NBYTES_PER_S
    if transport == "auto" and link is not None and (1 - ratio) / link < 1 / rate:
        return "raw"
    return method


def _best_method(sample: Buffer) -> tuple[Method, float]:
    overhead = 8  # of a stream's header and check, which a small sample would overweigh
    huffman = max(0, len(deflate(sample, "huffman")) - overhead) / len(sample)
    match = max(0, len(deflate(sample, "match")) - overhead) / len(sample)
    return ("match", match) if match < MATCH_GAIN * huffman else ("huffman", huffman)


def encode(plane: bytes, method: Method) -> Plane:
    """The plane deflated, if that made it smaller after all."""
    if method != "raw":
        packed = deflate(plane, method)
        if len(packed) < len(plane):
            return Plane(packed, True, len(plane))
    return Plane(plane, False, len(plane))


def encode_whole(data: Buffer, transport: Lossless, link: float | None) -> Plane:
    """Bytes that are not split (strings, lengths, one-byte elements) as a single plane."""
    method = judge(_middle(data, 1, 0), len(data), transport, link)
    return encode(bytes(data), method) if method != "raw" else Plane(data, False, len(data))


def encode_planes(
    data: Buffer, itemsize: int, transport: Lossless, link: float | None
) -> tuple[Plane, ...] | None:
    """The planes of `data`, or None if none is worth deflating (then it is best not split)."""
    count = len(data) // itemsize
    methods = [
        judge(_middle(data, itemsize, offset), count, transport, link) for offset in range(itemsize)
    ]
    if all(method == "raw" for method in methods):
        return None
    pairs = zip(split(data, itemsize), methods, strict=True)
    return tuple(encode(plane, method) for plane, method in pairs)


def _middle(data: Buffer, itemsize: int, offset: int) -> bytes:
    """A sample of one plane from the data's middle, where padding does not flatter it."""
    start = max(0, len(data) // itemsize - SAMPLE_NBYTES) // 2 * itemsize
    return bytes(data[start + offset : start + SAMPLE_NBYTES * itemsize : itemsize])
