"""Blobs on their way to a device: blocks whose planes are deflated where that saves time.

Of fp32 weights only the top byte of each number compresses; without it a blob takes 0.84 of its
bytes (measured with trained weights). Each block stands alone, so that a transfer can go on at any
byte, and is judged by its own bytes: blobs hold tensors of several types. Which blob it is, and
whether the bytes are right, the digest of the whole says; here only lengths are checked, before
anything is allocated. Over HTTP this is another media type of the same blob: whoever wants it says
so in `Accept`, with the rate of its link, and a store that does not know it sends plain bytes.

A block: planes (u8; 0: its bytes as they are), raw bytes and bytes that follow (u32 each), and
for each plane whether it is deflated (u8) and its bytes in the block (u32); then the planes.
Little-endian.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator

from wire.errors import Malformed
from wire.planes import Buffer, Plane, encode_planes, merge

CONTENT_TYPE = "application/vnd.crowdpipe.packed"
LENGTH_HEADER = "X-Blob-Bytes"  # of the whole blob: what is packed on the way has no length
BLOCK_NBYTES = 128 << 10  # little, since a device unpacks one in memory while it computes
ITEM_NBYTES = (4, 2)  # of fp32, and of fp16 and bfloat16
TRIED_NBYTES = 16 << 10  # of a chunk, to see which of them it looks like
UNKNOWN_NBYTES_PER_S = 5e6  # taken for a link that was not measured yet
# Packing takes a core 1 s for 110 MB, and unpacking for 300, to save a sixth of the bytes.
LARGEST_NBYTES_PER_S = 2e7
_BLOCK = struct.Struct("<BII")
_PLANE = struct.Struct("<BI")
_ACCEPT = re.compile(re.escape(CONTENT_TYPE) + r"(?:;link=(\d{1,12}))?(?:,|$)")


def accept(link_nbytes_per_s: float | None) -> str:
    """The HTTP header `Accept` of who wants blocks; the rate is None where it was not measured."""
    link = "" if link_nbytes_per_s is None else f";link={link_nbytes_per_s:.0f}"
    return f"{CONTENT_TYPE}{link}, application/octet-stream;q=0.5"


def accepted_link(header: str) -> float | None:
    """The rate of who accepts blocks; None if it does not, or if blocks save nothing there."""
    found = _ACCEPT.search(header.replace(" ", ""))
    if found is None:
        return None
    link = float(found.group(1) or UNKNOWN_NBYTES_PER_S)
    return link if 0 < link < LARGEST_NBYTES_PER_S else None


def pack(chunks: Iterable[bytes], link_nbytes_per_s: float) -> Iterator[bytes]:
    """The chunks' bytes as blocks, for a link of this rate."""
    for chunk in chunks:
        itemsize = _itemsize(chunk, link_nbytes_per_s)
        for start in range(0, len(chunk), BLOCK_NBYTES):
            yield _block(chunk[start : start + BLOCK_NBYTES], itemsize, link_nbytes_per_s)


def _block(data: bytes, itemsize: int, link_nbytes_per_s: float) -> bytes:
    divisible = itemsize and len(data) % itemsize == 0
    planes = encode_planes(data, itemsize, "auto", link_nbytes_per_s) if divisible else None
    if planes is None:
        return _BLOCK.pack(0, len(data), len(data)) + data
    heads = [_PLANE.pack(plane.deflated, len(plane.data)) for plane in planes]
    body = b"".join([*heads, *(plane.data for plane in planes)])
    return _BLOCK.pack(len(planes), len(data), len(body)) + body


def _itemsize(chunk: bytes, link_nbytes_per_s: float) -> int:
    """The size of the items by which a piece from the middle shrinks most; 0 if by none."""
    middle = max(0, len(chunk) - TRIED_NBYTES) // 8 * 4
    piece = chunk[middle : middle + TRIED_NBYTES]
    piece = piece[: len(piece) // max(ITEM_NBYTES) * max(ITEM_NBYTES)]
    best, least = 0, len(piece)
    for itemsize in ITEM_NBYTES:
        planes = encode_planes(piece, itemsize, "auto", link_nbytes_per_s)
        nbytes = sum(len(plane.data) for plane in planes) if planes else least
        if nbytes < least:
            best, least = itemsize, nbytes
    return best


class Unpacking:
    """Takes the bytes of blocks as they come, and gives the blob's."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._block: tuple[int, int, int] | None = None

    @property
    def whole(self) -> bool:
        """Nothing of a block is left over."""
        return not self._waiting and self._block is None

    def feed(self, data: Buffer) -> Iterator[Buffer]:
        """The raw bytes of each block that is whole by now. Raises `Malformed`."""
        self._waiting += data
        while (block := self._next()) is not None:
            count, raw_nbytes, nbytes = block
            body = bytes(self._waiting[:nbytes])
            del self._waiting[:nbytes]
            self._block = None
            yield _unpacked(body, count, raw_nbytes) if count else body

    def _next(self) -> tuple[int, int, int] | None:
        """The block that begins here, if all of it is there."""
        if self._block is None:
            if len(self._waiting) < _BLOCK.size:
                return None
            self._block = _checked(*_BLOCK.unpack(self._waiting[: _BLOCK.size]))
            del self._waiting[: _BLOCK.size]
        return self._block if len(self._waiting) >= self._block[2] else None


def _checked(count: int, raw_nbytes: int, nbytes: int) -> tuple[int, int, int]:
    sizes = nbytes < raw_nbytes if count else nbytes == raw_nbytes
    if not 0 < raw_nbytes <= BLOCK_NBYTES or not sizes:
        raise Malformed(f"a block of {raw_nbytes} bytes is said to take {nbytes}")
    if count and (count not in ITEM_NBYTES or raw_nbytes % count):
        raise Malformed(f"a block of {raw_nbytes} bytes is said to have {count} planes")
    return count, raw_nbytes, nbytes


def _unpacked(body: bytes, count: int, raw_nbytes: int) -> bytearray:
    heads_nbytes = count * _PLANE.size
    if len(body) < heads_nbytes:
        raise Malformed("a block is shorter than what it says of its planes")
    heads = list(_PLANE.iter_unpack(body[:heads_nbytes]))
    if heads_nbytes + sum(nbytes for _, nbytes in heads) != len(body):
        raise Malformed("a block's planes do not fill it")
    planes, offset, plane_nbytes = [], heads_nbytes, raw_nbytes // count
    for deflated, nbytes in heads:
        planes.append(_plane(body[offset : offset + nbytes], deflated, plane_nbytes))
        offset += nbytes
    return merge(planes)


def _plane(data: bytes, deflated: int, raw_nbytes: int) -> Buffer:
    if deflated > 1 or (not deflated and len(data) != raw_nbytes):
        raise Malformed(f"a plane of {raw_nbytes} bytes is said to take {len(data)}")
    return Plane(data, bool(deflated), raw_nbytes).decoded()
