"""Carries frames over one connection: in parts, paced by credits, both ways.

Coming in: parts are put together within a bound, each is credited to its sender, and the whole
frame goes to the listener with its header; what cannot be taken is told as lost, never silently
dropped. At the bound, which also counts what the owner still holds, a part of a larger frame gets
no credit until there is room, and a frame in one part is told as lost, so that it is sent again.

Going out: frames wait by reference and are loaded when it is their turn, so that a thousand
results for a client who comes back need no more memory than one. Large frames go one at a time to
each reader. The Python client uses this courier too.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from wire.credits import CreditWindow
from wire.errors import CrowdpipeError, Malformed, QueueFull, TimedOut, TooLarge
from wire.frames import Header, decode_frame, peek
from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import (
    PART_NBYTES,
    Credit,
    Part,
    Reassembly,
    Transfer,
    decode,
    encode_credit,
    encode_part,
    part_nbytes,
    split,
)
from wire.topics import FRAME_CONTENT_TYPE, Topics

REASSEMBLY_NBYTES = 256 << 20
REASSEMBLY_S = 60.0
AHEAD_NBYTES = 8 << 20  # so much may wait in the outbox before another frame is loaded
FRAME_EXPIRY_S = 300
QUEUE_LIMIT = 100_000  # frames that wait by reference; more are told as refused
REMEMBERED = 4096  # transfers that ended, so that a late part of one is no lost frame
RAW_LIMIT_NBYTES = 1 << 40  # what a frame may decode to is judged by its model, not here
RETRY_S = 0.05  # until the outbox is looked at again when it was full

Load = Callable[[], bytes | None]
_log = logging.getLogger("crowdpipe.courier")


class CourierListener(Protocol):
    """Called in whichever thread brought the part, without a lock held."""

    def frame_arrived(self, sender: str, header: Header, frame: bytes) -> None: ...
    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None: ...


class Post(Protocol):
    """What the courier needs of a connection."""

    def publish(self, message: Message) -> None: ...
    @property
    def waiting_nbytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class _Parcel:
    to: str
    transfer: Transfer
    nbytes: int
    load: Load


class Courier:
    """For one party, `us`. `post` is set once the connection exists. `held_nbytes` tells what the
    owner still holds of frames that came; it counts towards the bound."""

    def __init__(
        self,
        topics: Topics,
        us: str,
        listener: CourierListener,
        reassembly_nbytes: int = REASSEMBLY_NBYTES,
        held_nbytes: Callable[[], int] = int,
    ) -> None:
        self._topics = topics
        self._us = us
        self._listener = listener
        self._guard = threading.Lock()
        self._bound_nbytes = reassembly_nbytes
        self._held_nbytes = held_nbytes
        self._reassembly = Reassembly(reassembly_nbytes, REASSEMBLY_S)
        self._finished: dict[tuple[str, Transfer], None] = {}
        self._refused: dict[tuple[str, Transfer], None] = {}
        self._window = CreditWindow()
        self._parcels: deque[_Parcel] = deque()
        self._known: set[tuple[str, Transfer]] = set()
        self._part_nbytes = PART_NBYTES
        self._retry_at: float | None = None
        self.post: Post | None = None

    # --- coming in ----------------------------------------------------------------------------

    def received(self, topic: str, payload: bytes) -> None:
        """A message on a data topic. Raises `Malformed` if it is neither part nor credit."""
        _, sender = self._topics.sender(topic)
        piece = decode(payload)
        now = time.monotonic()
        if isinstance(piece, Credit):
            with self._guard:
                due = self._window.credited(sender, piece, now)
            for part in due:
                self._publish_part(sender, part)
            return
        self._take(sender, piece, now)

    def _take(self, sender: str, part: Part, now: float) -> None:
        activation = part.transfer.activation
        try:
            if not self._admitted(sender, part):
                return
            with self._guard:
                whole = self._reassembly.add(sender, part, now)
            if part.count > 1:
                self._give_credit(sender, part)
            if whole is None:
                return
            frame = bytes(whole)
            header = self._checked(sender, part.transfer, frame)
        except CrowdpipeError as error:
            _log.warning("lost %s from %s: %s", activation, sender, error)
            self._listener.frame_lost(sender, activation, error)
            return
        self._listener.frame_arrived(sender, header, frame)

    def _admitted(self, sender: str, part: Part) -> bool:
        """Whether to take this part now. A frame that can never be taken is told once and its
        parts are credited, so that its sender comes to an end with it."""
        key = (sender, part.transfer)
        if part.total_nbytes > self._bound_nbytes:
            if part.count > 1:
                self._give_credit(sender, part)
            with self._guard:
                known = key in self._refused
                _remember(self._refused, key)
            if known:
                return False
            raise TooLarge(
                f"a frame of {part.total_nbytes} bytes is more than the {self._bound_nbytes} "
                "that may wait here"
            )
        with self._guard:
            taken = self._held_nbytes() + self._reassembly.nbytes
            known = self._reassembly.knows(*key)
        if known or taken + part.total_nbytes <= self._bound_nbytes:
            return True
        if part.count > 1:
            return False  # without a credit its sender offers it again
        raise QueueFull(f"{taken} bytes of frames wait here already; send it again later")

    def _checked(self, sender: str, transfer: Transfer, frame: bytes) -> Header:
        """The header of a frame whose layout is as its header says."""
        with self._guard:
            _remember(self._finished, (sender, transfer))
        decode_frame(frame, RAW_LIMIT_NBYTES)
        header = peek(frame)
        if header.activation != transfer.activation:
            raise Malformed(f"a frame of {header.activation} came as {transfer.activation}")
        return header

    def _give_credit(self, sender: str, part: Part) -> None:
        credit = Credit(part.transfer, part.index, part.count)
        self._publish(
            Message(
                topic=self._topics.data(sender, self._us),
                payload=encode_credit(credit),
                expiry_s=FRAME_EXPIRY_S,
                content_type=FRAME_CONTENT_TYPE,
            )
        )

    # --- going out ----------------------------------------------------------------------------

    def send(self, to: str, transfer: Transfer, nbytes: int, load: Load) -> None:
        """Send a frame of `nbytes` when its turn comes; `load` gives it then, or None if it was
        let go meanwhile. Raises `QueueFull` if too many wait."""
        with self._guard:
            if (to, transfer) in self._known:
                return
            if len(self._parcels) >= QUEUE_LIMIT:
                raise QueueFull(f"{QUEUE_LIMIT} frames wait to be sent already")
            self._known.add((to, transfer))
            self._parcels.append(_Parcel(to, transfer, nbytes, load))
        self._pump()

    def forget(self, transfer: Transfer) -> None:
        """Stop sending it; what others wait for takes its turn."""
        with self._guard:
            self._parcels = deque(each for each in self._parcels if each.transfer != transfer)
            self._known = {each for each in self._known if each[1] != transfer}
            due = self._window.forget(transfer, time.monotonic())
        for to, part in due:
            self._publish_part(to, part)

    def connected(self, packet_nbytes: int | None) -> None:
        """The outbox repeats what was in flight; parts that nobody credited go again too."""
        with self._guard:
            self._part_nbytes = part_nbytes(packet_nbytes)
            again = self._window.reconnected(time.monotonic())
        for to, part in again:
            self._publish_part(to, part)
        self._pump()

    def disconnected(self) -> None:
        """Nobody can return a credit now, so nobody is given up for returning none."""
        with self._guard:
            self._window.disconnected()

    def fill(self) -> None:
        """The outbox holds little: hand on what waits."""
        if self._parcels:
            self._pump()

    def forget_run(self, run: str) -> None:
        """Send nothing of this run any more that has not begun."""
        with self._guard:
            gone = [each for each in self._parcels if each.transfer.activation.run == run]
            self._known.difference_update((each.to, each.transfer) for each in gone)
            self._parcels = deque(
                each for each in self._parcels if each.transfer.activation.run != run
            )

    def _pump(self) -> None:
        """Hand on what fits; the rest follows from `fill` or `expire`."""
        while True:
            with self._guard:
                if not self._parcels or self._waiting_nbytes() > AHEAD_NBYTES:
                    self._retry_at = time.monotonic() + RETRY_S if self._parcels else None
                    return
                parcel = self._parcels.popleft()
                self._known.discard((parcel.to, parcel.transfer))
            self._hand_on(parcel)

    def _waiting_nbytes(self) -> int:
        return self.post.waiting_nbytes if self.post is not None else AHEAD_NBYTES + 1

    def _hand_on(self, parcel: _Parcel) -> None:
        if parcel.nbytes <= self._part_nbytes:
            for part in self._parts(parcel):
                self._publish_part(parcel.to, part)
            return
        with self._guard:
            due = self._window.offer(
                parcel.to, parcel.transfer, self._parts(parcel), time.monotonic()
            )
        for part in due:
            self._publish_part(parcel.to, part)

    def _parts(self, parcel: _Parcel) -> Iterator[Part]:
        """Loads the frame when the first part is asked for."""
        frame = parcel.load()
        if frame is not None:
            yield from split(parcel.transfer, frame, self._part_nbytes)

    def _publish_part(self, to: str, part: Part) -> None:
        activation = part.transfer.activation
        self._publish(
            Message(
                topic=self._topics.data(to, self._us),
                payload=encode_part(part),
                expiry_s=FRAME_EXPIRY_S,
                content_type=FRAME_CONTENT_TYPE,
                properties=(
                    ("run", activation.run),
                    ("item", str(activation.item)),
                    ("cut", str(activation.cut)),
                    ("part", f"{part.index + 1}/{part.count}"),
                ),
                control=False,
            )
        )

    def _publish(self, message: Message) -> None:
        if self.post is None:
            return
        try:
            self.post.publish(message)
        except QueueFull as error:
            _log.warning("a part is not sent: %s; it will be asked for again", error)

    # --- time ---------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Repeat what was not credited, give up what waited too long, look at the outbox again."""
        with self._guard:
            again, given_up = self._window.expire(now)
            abandoned = [
                each
                for each in self._reassembly.expire(now)
                if (each.sender, each.transfer) not in self._finished
            ]
            retry = self._retry_at is not None and now >= self._retry_at
        for to, part in again:
            self._publish_part(to, part)
        for frame in given_up:
            _log.warning("%s took no part of %s; given up", frame.to, frame.transfer.activation)
        for lost in abandoned:
            error = TimedOut(f"a frame stayed incomplete: {lost.reason}")
            self._listener.frame_lost(lost.sender, lost.transfer.activation, error)
        if retry:
            self._pump()

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        with self._guard:
            times = (self._window.wake_at(), self._reassembly.wake_at(), self._retry_at)
        return min((each for each in times if each is not None), default=None)


def _remember(keys: dict[tuple[str, Transfer], None], key: tuple[str, Transfer]) -> None:
    keys[key] = None
    if len(keys) > REMEMBERED:
        del keys[next(iter(keys))]
