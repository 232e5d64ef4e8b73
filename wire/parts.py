"""What a data topic carries: a frame in one or several parts, a credit for parts received, or a
bundle of these.

A frame larger than a packet may be travels in parts, each naming its activation, attempt, index,
count and the frame's whole length, so that they may come in any order, twice, or not at all. The
reader puts them together (see `wire.reassembly`) and returns credits to the sender (see
`wire.credits`). Payloads are little-endian: magic (2 bytes), kind (u8), run (u8 length,
UTF-8), item, cut, attempt, index, count (u32 each), total bytes (u64), then the part's bytes. A
credit is the same without bytes: its index is the part that arrived.

Small frames that wait for the same reader travel in one message, a bundle: magic, kind, count of
its pieces (u8), the length of each (u32), then the pieces, each such a payload by itself and no
bundle. A reader takes every piece as if it had come alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from wire.errors import Malformed, TooLarge
from wire.ids import NAME_NBYTES, ActivationId, is_name
from wire.planes import Buffer

PART_NBYTES = 256 << 10
# What a fast link carries in some 50 ms, so that small messages behind it still come soon.
LARGE_PART_NBYTES = 512 << 10
FAST_LINK_NBYTES_PER_S = 10e6
PACKET_SLACK_NBYTES = 4 << 10  # topic, properties and our own head, below a packet's limit
MAX_PARTS = 1 << 16
MAX_BUNDLED = 32
_MAGIC = b"CP"
_PART, _CREDIT, _BUNDLE = 0, 1, 2
_START = struct.Struct("<2sBB")
_NUMBERS = struct.Struct("<IIIIIQ")
_LENGTH_NBYTES = 4
# What a frame adds to a bundle beside its own bytes, at most.
PIECE_HEAD_NBYTES = _LENGTH_NBYTES + _START.size + NAME_NBYTES + _NUMBERS.size


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


def encode_bundle(parts: Sequence[Part]) -> bytes:
    """Several parts as one payload; `ValueError` if they are too many."""
    if not 0 < len(parts) <= MAX_BUNDLED:
        raise ValueError(f"{len(parts)} parts cannot travel together")
    pieces: list[Buffer] = []
    lengths = []
    for part in parts:
        head = _head(_PART, part.transfer, part.index, part.count, part.total_nbytes)
        lengths.append(len(head) + len(part.data))
        pieces += (head, part.data)
    table = struct.pack(f"<{len(lengths)}I", *lengths)
    return b"".join((_START.pack(_MAGIC, _BUNDLE, len(lengths)), table, *pieces))


def pieces_of(payload: Buffer) -> tuple[Buffer, ...]:
    """What a data topic's payload carries, each to be decoded by itself, so that a bad piece costs
    no other: the pieces of a bundle, uncopied, or the payload as it is. `Malformed` if a bundle's
    lengths are not what it has."""
    view = memoryview(payload)
    if len(view) < _START.size:
        return (payload,)
    magic, kind, count = _START.unpack(view[: _START.size])
    if magic != _MAGIC or kind != _BUNDLE:
        return (payload,)
    offset = _START.size + count * _LENGTH_NBYTES
    if not 0 < count <= MAX_BUNDLED or len(view) < offset:
        raise Malformed(f"{len(view)} bytes are no bundle of {count} pieces")
    lengths = struct.unpack(f"<{count}I", view[_START.size : offset])
    if sum(lengths) != len(view) - offset:
        raise Malformed(f"{count} pieces of a bundle do not add up to its {len(view)} bytes")
    ends = accumulate(lengths, initial=offset)
    return tuple(view[begin:end] for begin, end in pairwise(ends))


def decode(payload: Buffer) -> Part | Credit:
    """A part or a credit that came alone or as a piece of a bundle; `Malformed` if it is none,
    which a bundle in a bundle is, too."""
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
