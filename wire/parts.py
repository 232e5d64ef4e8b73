"""What a data topic carries: a frame in one or several parts, or a credit for parts received.

A frame larger than a packet may be travels in parts, each naming its activation, attempt, index,
count and the frame's whole length, so that they may come in any order, twice, or not at all. The
reader puts them together (see `wire.reassembly`) and returns credits to the sender (see
`wire.credits`). Payloads are little-endian: magic (2 bytes), kind (u8), run (u8 length,
UTF-8), item, cut, attempt, index, count (u32 each), total bytes (u64), then the part's bytes. A
credit is the same without bytes: its index is the part that arrived.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from wire.errors import Malformed, TooLarge
from wire.ids import ActivationId, is_name
from wire.planes import Buffer

PART_NBYTES = 256 << 10
# What a fast link carries in some 50 ms, so that small messages behind it still come soon.
LARGE_PART_NBYTES = 512 << 10
FAST_LINK_NBYTES_PER_S = 10e6
PACKET_SLACK_NBYTES = 4 << 10  # topic, properties and our own head, below a packet's limit
MAX_PARTS = 1 << 16
_MAGIC = b"CP"
_PART, _CREDIT = 0, 1
_START = struct.Struct("<2sBB")
_NUMBERS = struct.Struct("<IIIIIQ")


@dataclass(frozen=True, slots=True, order=True)
class Transfer:
    """One sending of one frame: what parts and credits belong to."""

    activation: ActivationId
    attempt: int


@dataclass(frozen=True, slots=True)
class Part:
    """Part `index` of `count` of a frame of `total_nbytes`."""

    transfer: Transfer
    index: int
    count: int
    total_nbytes: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class Credit:
    """The reader has part `index`: the sender may send another."""

    transfer: Transfer
    index: int
    count: int


def part_nbytes(packet_nbytes: int | None, link_nbytes_per_s: float | None = None) -> int:
    """Bytes of a frame in one part, given the broker's packet limit (None: unlimited) and the
    sender's link as measured (None: not yet). Each part costs messages and credits, so it may be
    larger where the link is fast."""
    fast = link_nbytes_per_s is not None and link_nbytes_per_s >= FAST_LINK_NBYTES_PER_S
    most = LARGE_PART_NBYTES if fast else PART_NBYTES
    return most if packet_nbytes is None else max(1, min(most, packet_nbytes - PACKET_SLACK_NBYTES))


def split(transfer: Transfer, frame: Buffer, part_nbytes: int) -> Iterator[Part]:
    """The frame's parts in order, made one at a time."""
    view = memoryview(frame)
    count = max(1, -(-len(view) // part_nbytes))
    if count > MAX_PARTS:
        raise TooLarge(f"a frame of {len(view)} bytes takes {count} parts; {MAX_PARTS} are allowed")
    for index in range(count):
        data = view[index * part_nbytes : (index + 1) * part_nbytes]
        yield Part(transfer, index, count, len(view), data)


def encode_part(part: Part) -> bytes:
    head = _head(_PART, part.transfer, part.index, part.count, part.total_nbytes)
    return b"".join((head, part.data))


def encode_credit(credit: Credit) -> bytes:
    return _head(_CREDIT, credit.transfer, credit.index, credit.count, 0)


def _head(kind: int, transfer: Transfer, index: int, count: int, total: int) -> bytes:
    run = transfer.activation.run.encode()
    numbers = (transfer.activation.item, transfer.activation.cut, transfer.attempt, index, count)
    return _START.pack(_MAGIC, kind, len(run)) + run + _NUMBERS.pack(*numbers, total)


def decode(payload: Buffer) -> Part | Credit:
    """A data topic's payload; `Malformed` if it is none."""
    view = memoryview(payload)
    if len(view) < _START.size:
        raise Malformed(f"{len(view)} bytes are no part")
    magic, kind, run_nbytes = _START.unpack(view[: _START.size])
    offset = _START.size + run_nbytes
    if magic != _MAGIC or kind not in (_PART, _CREDIT) or len(view) < offset + _NUMBERS.size:
        raise Malformed("a data topic's payload is neither a part nor a credit")
    run = _run_of(view[_START.size : offset])
    numbers = _NUMBERS.unpack(view[offset : offset + _NUMBERS.size])
    item, cut, attempt, index, count, total = numbers
    transfer = Transfer(ActivationId(run, item, cut), attempt)
    data = view[offset + _NUMBERS.size :]
    if index >= count or count > MAX_PARTS:
        raise Malformed(f"part {index} of {count} is not possible")
    if kind == _CREDIT:
        return _credit(Credit(transfer, index, count), total, data)
    part = Part(transfer, index, count, total, data)
    if not _plausible(part):
        raise Malformed(f"part {index} of {count} with {len(data)} of {total} bytes")
    return part


def _run_of(name: memoryview) -> str:
    try:
        run = str(name, "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a part's run is not UTF-8") from None
    if not is_name(run):
        raise Malformed(f"a part of a run called {run!r:.80}")
    return run


def _credit(credit: Credit, total: int, data: memoryview) -> Credit:
    if total or len(data):
        raise Malformed("a credit carries no bytes")
    return credit


def _plausible(part: Part) -> bool:
    """A single part is the whole frame; of several, each has at least a byte."""
    size, others = len(part.data), part.count - 1
    return size == part.total_nbytes if not others else 0 < size <= part.total_nbytes - others
