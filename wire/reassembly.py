"""Frames that come in parts, put together within a bound in bytes and limits in time.

What a sender announces takes no room: anybody can announce much. Room is taken by bytes that are
here, and promised to a frame as far as its sender has sent as much before. So a frame of a sender
that is known to deliver is let in when all of it fits, and then comes to its end whatever others
send; one of a stranger is let in at once, and its promise grows with its bytes. A promise ends when
no part comes for `LAPSE_S`, and whose promise ended must earn the next. Where parts of strangers
have filled all the room, the one that was silent longest gives way.

Pure: the time comes with each call. Who is told of what was given up, and credits, are the work of
whoever calls.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from wire.errors import Malformed, TooLarge
from wire.parts import Part, Transfer
from wire.planes import Buffer

MAX_UNFINISHED, MAX_UNFINISHED_EACH = 8192, 256  # frames: of all senders, of one
MAX_SENDERS = 4096  # of whom is remembered how much they delivered
LAPSE_S = 2.0
GIVE_WAY_S = 5.0

Key = tuple[str, Transfer]


@dataclass(slots=True)
class _Unfinished:
    count: int
    total_nbytes: int
    heard_at: float
    promised: int = 0  # bytes of room for what is still to come
    nbytes: int = 0
    pieces: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class _Sender:
    """Of its unfinished frames: how many there are, and bytes promised to all of them."""

    count: int = 0
    promised: int = 0


@dataclass(frozen=True, slots=True)
class Abandoned:
    """A frame given up before it was whole; no drop is silent."""

    sender: str
    transfer: Transfer
    reason: str


class Reassembly:
    """Per sender; `max_nbytes` of room, at most `max_frame_nbytes` for one frame.

    A frame that is not whole `timeout_s` after its last part is given up, which `expire` tells.
    Finished frames are not remembered: a late repeat of a part waits, and is given up."""

    def __init__(
        self, max_nbytes: int, timeout_s: float = 60.0, max_frame_nbytes: int | None = None
    ) -> None:
        self.max_nbytes = max_nbytes
        self.max_frame_nbytes = max_nbytes if max_frame_nbytes is None else max_frame_nbytes
        self.timeout_s = timeout_s
        self._taken = 0  # by all unfinished frames, with what is promised to them
        # The one heard of longest ago is first: every deadline is as long after its last part.
        self._unfinished: OrderedDict[Key, _Unfinished] = OrderedDict()
        self._promised: OrderedDict[Key, None] = OrderedDict()  # of those, in the same order
        self._senders: dict[str, _Sender] = {}  # of unfinished frames
        self._delivered: OrderedDict[str, int] = OrderedDict()  # bytes, by sender
        self._gave_way: list[Abandoned] = []

    @property
    def nbytes(self) -> int:
        """Bytes that unfinished frames take, with what is promised to them."""
        return self._taken

    def knows(self, sender: str, transfer: Transfer) -> bool:
        """Whether parts of it wait here for others."""
        return (sender, transfer) in self._unfinished

    # --- room ---------------------------------------------------------------------------------

    def admits(self, sender: str, part: Part, now: float, used_nbytes: int = 0) -> bool:
        """Whether there is room for this part, beside `used_nbytes` that others take of it."""
        if self._fits(sender, part, used_nbytes):
            return True
        self._end_promises(now)
        if self._fits(sender, part, used_nbytes):
            return True
        while self._one_gives_way(now, (sender, part.transfer)):
            if self._fits(sender, part, used_nbytes):
                return True
        return False

    def _fits(self, sender: str, part: Part, used_nbytes: int) -> bool:
        frame = self._unfinished.get((sender, part.transfer))
        room = self.max_nbytes - used_nbytes - self._taken
        if frame is not None:
            return part.index in frame.pieces or len(part.data) <= room + frame.promised
        earned = min(part.total_nbytes, self._delivered.get(sender, 0))
        return max(len(part.data), earned) <= room

    def _end_promises(self, now: float) -> None:
        """Of those of whom nothing came for a while."""
        while (key := next(iter(self._promised), None)) is not None:
            frame = self._unfinished[key]
            if frame.heard_at > now - LAPSE_S:
                return
            self._promise(key, frame, 0)
            self._delivered.pop(key[0], None)

    def _one_gives_way(self, now: float, but: Key) -> bool:
        key = self._oldest()
        if key is None or key == but or self._unfinished[key].heard_at > now - GIVE_WAY_S:
            return False
        frame = self._remove(key)
        parts = f"{len(frame.pieces)} of {frame.count} parts were here"
        self._gave_way.append(Abandoned(*key, f"{parts}, no more came, and others needed the room"))
        return True

    # --- parts --------------------------------------------------------------------------------

    def add(self, sender: str, part: Part, now: float, used_nbytes: int = 0) -> Buffer | None:
        """The whole frame if this was its last missing part. A single part passes straight
        through. `TooLarge` at the bound; `Malformed` if it contradicts the parts before it,
        which are then forgotten, so that a sending anew is not held up by them."""
        if part.count == 1:
            return part.data
        if not self.admits(sender, part, now, used_nbytes):
            raise TooLarge(
                f"{part.transfer.activation} does not fit: {self._taken + used_nbytes} of "
                f"{self.max_nbytes} bytes are taken"
            )
        key = (sender, part.transfer)
        frame = self._unfinished.get(key) or self._begin(key, part, now)
        self._check(key, frame, part)
        if part.index not in frame.pieces:
            frame.heard_at = now
            self._unfinished.move_to_end(key)
            self._take(key, frame, part, used_nbytes)
        return self._finish(key) if len(frame.pieces) == frame.count else None

    def _begin(self, key: Key, part: Part, now: float) -> _Unfinished:
        sender = self._senders.get(key[0], _Sender())
        if part.total_nbytes > self.max_frame_nbytes:
            raise TooLarge(
                f"{part.transfer.activation} of {part.total_nbytes} bytes is over the limit of "
                f"{self.max_frame_nbytes} for a frame"
            )
        if sender.count >= MAX_UNFINISHED_EACH or len(self._unfinished) >= MAX_UNFINISHED:
            raise TooLarge(
                f"{part.transfer.activation} does not fit: {sender.count} frames of {key[0]} and "
                f"{len(self._unfinished)} in all are unfinished"
            )
        frame = self._unfinished[key] = _Unfinished(part.count, part.total_nbytes, now)
        self._senders[key[0]] = sender
        sender.count += 1
        return frame

    def _check(self, key: Key, frame: _Unfinished, part: Part) -> None:
        told = f"parts of {part.transfer.activation}"
        if (frame.count, frame.total_nbytes) != (part.count, part.total_nbytes):
            self._remove(key)
            raise Malformed(f"{told} disagree on its length")
        fresh_nbytes = 0 if part.index in frame.pieces else len(part.data)
        if frame.nbytes + fresh_nbytes > frame.total_nbytes:
            self._remove(key)
            raise Malformed(f"{told} are longer than announced")

    def _take(self, key: Key, frame: _Unfinished, part: Part, used_nbytes: int) -> None:
        """The part's bytes, and a promise as far as the sender has earned it and there is room."""
        frame.pieces[part.index] = bytes(part.data)
        frame.nbytes += len(part.data)
        self._taken += len(part.data)
        self._promise(key, frame, 0)
        earned = self._earn(key[0], len(part.data)) - self._senders[key[0]].promised
        room = self.max_nbytes - used_nbytes - self._taken
        self._promise(key, frame, max(0, min(frame.total_nbytes - frame.nbytes, earned, room)))

    def _promise(self, key: Key, frame: _Unfinished, nbytes: int) -> None:
        more = nbytes - frame.promised
        frame.promised = nbytes
        self._taken += more
        self._senders[key[0]].promised += more
        self._promised.pop(key, None)
        if nbytes:
            self._promised[key] = None

    def _earn(self, sender: str, nbytes: int) -> int:
        earned = min(self.max_nbytes, self._delivered.pop(sender, 0) + nbytes)
        self._delivered[sender] = earned
        if len(self._delivered) > MAX_SENDERS:
            self._delivered.popitem(last=False)
        return earned

    def _finish(self, key: Key) -> bytes:
        frame = self._remove(key)
        if frame.nbytes != frame.total_nbytes:
            raise Malformed(f"parts of {key[1].activation} do not add up to its length")
        return b"".join(frame.pieces[index] for index in range(frame.count))

    def _remove(self, key: Key) -> _Unfinished:
        frame = self._unfinished[key]
        self._promise(key, frame, 0)
        del self._unfinished[key]
        self._taken -= frame.nbytes
        self._senders[key[0]].count -= 1
        if not self._senders[key[0]].count:
            del self._senders[key[0]]
        return frame

    def forget(self, sender: str, transfer: Transfer) -> None:
        if self.knows(sender, transfer):
            self._remove((sender, transfer))

    # --- time ---------------------------------------------------------------------------------

    def expire(self, now: float) -> list[Abandoned]:
        """Give up what has waited too long, and say what it was, and what gave way."""
        abandoned, self._gave_way = self._gave_way, []
        while (key := self._oldest()) is not None and self._deadline(key) <= now:
            frame = self._remove(key)
            self._delivered.pop(key[0], None)
            reason = f"{len(frame.pieces)} of {frame.count} parts came in {self.timeout_s:g} s"
            abandoned.append(Abandoned(*key, reason))
        return abandoned

    def wake_at(self) -> float | None:
        """When `expire` has something to do; a time that is past if it has now."""
        if self._gave_way:
            return float("-inf")
        oldest = self._oldest()
        return None if oldest is None else self._deadline(oldest)

    def _oldest(self) -> Key | None:
        return next(iter(self._unfinished), None)

    def _deadline(self, key: Key) -> float:
        return self._unfinished[key].heard_at + self.timeout_s

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold: for tests."""
        frames = list(self._unfinished.values())
        assert self._taken == sum(frame.nbytes + frame.promised for frame in frames)
        heard = [frame.heard_at for frame in frames]
        assert heard == sorted(heard), "the first is the one that is given up first"
        promised = [key for key, frame in self._unfinished.items() if frame.promised]
        assert promised == list(self._promised)
        for sender, known in self._senders.items():
            its = [frame for key, frame in self._unfinished.items() if key[0] == sender]
            assert (known.count, known.promised) == (len(its), sum(one.promised for one in its))
        for frame in frames:
            assert frame.nbytes == sum(map(len, frame.pieces.values())) <= frame.total_nbytes
            assert 0 < len(frame.pieces) < frame.count
            assert 0 <= frame.promised <= frame.total_nbytes - frame.nbytes
