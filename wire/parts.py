"""What a data topic carries: a frame in one or several parts, or a credit for parts received.

A frame larger than a packet may be travels in parts, each naming its activation, attempt, index,
count and the frame's whole length, so that they may come in any order, twice, or not at all. The
reader puts them together within a bound in bytes and a limit in time, and returns credits to the
sender (see `wire.credits`). Payloads are little-endian: magic (2 bytes), kind (u8), run (u8 length,
UTF-8), item, cut, attempt, index, count (u32 each), total bytes (u64), then the part's bytes. A
credit is the same without bytes: its index is the part that arrived.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from wire.errors import Malformed, TooLarge
from wire.ids import ActivationId
from wire.planes import Buffer

PART_NBYTES = 256 << 10
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


def part_nbytes(packet_nbytes: int | None) -> int:
    """Bytes of a frame in one part, given the broker's packet limit (None: unlimited)."""
    if packet_nbytes is None:
        return PART_NBYTES
    return max(1, min(PART_NBYTES, packet_nbytes - PACKET_SLACK_NBYTES))


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
    try:
        run = str(view[_START.size : offset], "utf-8")
    except UnicodeDecodeError:
        raise Malformed("a part's run is not UTF-8") from None
    numbers = _NUMBERS.unpack(view[offset : offset + _NUMBERS.size])
    item, cut, attempt, index, count, total = numbers
    transfer = Transfer(ActivationId(run, item, cut), attempt)
    data = view[offset + _NUMBERS.size :]
    if (
        index >= count
        or count > MAX_PARTS
        or len(data) > total
        or (count == 1 and len(data) < total)
    ):
        raise Malformed(f"part {index} of {count} with {len(data)} of {total} bytes")
    if kind == _CREDIT:
        return Credit(transfer, index, count)
    return Part(transfer, index, count, total, data)


@dataclass(slots=True)
class _Unfinished:
    count: int
    total_nbytes: int
    deadline: float
    pieces: dict[int, Buffer] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.pieces.values()))


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A frame given up before it was whole; no drop is silent."""

    sender: str
    transfer: Transfer
    reason: str


class Reassembly:
    """Puts parts together, per sender. Pure: the time comes with each call.

    At most `max_nbytes` wait in unfinished frames: a part that would exceed it is refused with
    `TooLarge`, and its frame is given up. A frame that is not whole `timeout_s` after its last
    part is given up too.
    """

    def __init__(self, max_nbytes: int, timeout_s: float = 60.0) -> None:
        self.max_nbytes = max_nbytes
        self.timeout_s = timeout_s
        self._unfinished: dict[tuple[str, Transfer], _Unfinished] = {}

    @property
    def nbytes(self) -> int:
        """Bytes reserved by unfinished frames: their whole announced lengths."""
        return sum(frame.total_nbytes for frame in self._unfinished.values())

    def add(self, sender: str, part: Part, now: float) -> Buffer | None:
        """The whole frame if this was its last missing part. A single part passes straight
        through. `Malformed` if it contradicts the parts before it; `TooLarge` at the bound."""
        if part.count == 1:
            return part.data
        key = (sender, part.transfer)
        frame = self._unfinished.get(key) or self._begin(key, part, now)
        if (frame.count, frame.total_nbytes) != (part.count, part.total_nbytes):
            raise Malformed(f"parts of {part.transfer.activation} disagree on its length")
        frame.pieces[part.index] = bytes(part.data)
        frame.deadline = now + self.timeout_s
        if frame.nbytes > frame.total_nbytes:
            del self._unfinished[key]
            raise Malformed(f"parts of {part.transfer.activation} are longer than announced")
        return self._finish(key, frame) if len(frame.pieces) == frame.count else None

    def _begin(self, key: tuple[str, Transfer], part: Part, now: float) -> _Unfinished:
        if self.nbytes + part.total_nbytes > self.max_nbytes:
            raise TooLarge(
                f"{part.transfer.activation} of {part.total_nbytes} bytes does not fit: "
                f"{self.nbytes} of {self.max_nbytes} bytes are taken by unfinished frames"
            )
        frame = _Unfinished(part.count, part.total_nbytes, now + self.timeout_s)
        self._unfinished[key] = frame
        return frame

    def _finish(self, key: tuple[str, Transfer], frame: _Unfinished) -> bytes:
        del self._unfinished[key]
        whole = b"".join(frame.pieces[index] for index in range(frame.count))
        if len(whole) != frame.total_nbytes:
            raise Malformed(f"parts of {key[1].activation} do not add up to its length")
        return whole

    def expire(self, now: float) -> list[Abandoned]:
        """Give up what has waited too long, and say what it was."""
        late = [key for key, frame in self._unfinished.items() if frame.deadline <= now]
        abandoned = []
        for sender, transfer in late:
            frame = self._unfinished.pop((sender, transfer))
            reason = f"{len(frame.pieces)} of {frame.count} parts came in {self.timeout_s:g} s"
            abandoned.append(Abandoned(sender, transfer, reason))
        return abandoned

    def knows(self, sender: str, transfer: Transfer) -> bool:
        """Whether parts of it wait here for others."""
        return (sender, transfer) in self._unfinished

    def forget(self, sender: str, transfer: Transfer) -> None:
        self._unfinished.pop((sender, transfer), None)

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        return min((frame.deadline for frame in self._unfinished.values()), default=None)
