"""Frames on their way out: whole where they fit into a message, else in parts paced by credits.

Small ones that wait for the same reader share one message: a message costs both ends and the
broker more than its bytes do. None waits for company, only what waits already goes along.

A frame waits by reference and is loaded when its turn comes, once, so that a slow link, or a
thousand results for a client who comes back, need no more memory than one. Large frames go one at
a time to each reader. What the broker had not acknowledged when a connection was lost goes again,
from its source, and so do parts without a credit. A frame that cannot be sent is told, never
dropped in silence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator

from bus.frame_messages import FrameMessages
from bus.link import Link
from bus.parcels import FrameSource, Parcel, Parcels
from wire.credits import CreditWindow
from wire.errors import CrowdpipeError, OperatorError, QueueFull, TimedOut, TooLarge
from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import (
    MAX_BUNDLED,
    MAX_PARTS,
    PIECE_HEAD_NBYTES,
    Credit,
    Part,
    Transfer,
    part_nbytes,
    split,
)

UNHEARD_LIMIT = 20  # so often a frame may find nobody, for some 80 s, before it is given up
QUEUE_LIMIT = 100_000  # frames that wait by reference; more are refused
SMALL_NBYTES = 64 << 10  # a larger frame has a message of its own
BUNDLE_NBYTES = 256 << 10  # at most so many of small ones share one, and as many as a part has

Publish = Callable[[Message], None]
GiveUp = Callable[[str, ActivationId, CrowdpipeError], None]
_log = logging.getLogger("crowdpipe.courier")


class OutboundFrames:
    """`give_up` is told what will not be sent: reader, name and why. Safe to use from several
    threads."""

    def __init__(
        self, messages: FrameMessages, publish: Publish, link: Link, give_up: GiveUp
    ) -> None:
        self._messages = messages
        self._publish = publish
        self._link = link
        self._give_up = give_up
        self._guard = threading.Lock()
        self._parcels = Parcels()
        self._window = CreditWindow()
        self._packet_nbytes: int | None = None
        self._failed: list[tuple[str, ActivationId, CrowdpipeError]] = []

    # --- anybody ------------------------------------------------------------------------------

    def send(self, to: str, activation: ActivationId, source: FrameSource) -> None:
        """When its turn comes. Asked twice while it waits, it is sent once. Raises `QueueFull`."""
        with self._guard:
            if self._parcels.waiting >= QUEUE_LIMIT:
                raise QueueFull(f"{QUEUE_LIMIT} frames wait to be sent already")
            self._parcels.wait(Parcel(to, activation, source))

    def forget(self, activation: ActivationId, now: float) -> None:
        """Send it to nobody any more; what waited behind it takes its turn."""
        with self._guard:
            self._end(self._parcels.forget(activation), now)
        self._tell_failed()

    def forget_run(self, run: str, now: float) -> None:
        with self._guard:
            self._end(self._parcels.forget_run(run), now)
        self._tell_failed()

    def _end(self, transfers: Iterable[Transfer], now: float) -> None:
        for transfer in transfers:
            self._put(self._window.forget(transfer, now))

    def _tell_failed(self) -> None:
        """What turned out with the lock held, told without it."""
        if not self._failed:
            return
        with self._guard:
            failed, self._failed = self._failed, []
        for each in failed:
            self._tell(*each)

    def expire(self, now: float) -> None:
        """Offer again what got no credit, and give up a reader that returned none for long."""
        with self._guard:
            again, given_up = self._window.expire(now)
            for each in given_up:
                self._parcels.done(each.to, each.transfer)
                error = TimedOut(f"{each.to} returned no credit for it")
                self._failed.append((each.to, each.transfer.activation, error))
            self._put(again)
        self._tell_failed()

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        with self._guard:
            return self._window.wake_at()

    # --- the connection's thread --------------------------------------------------------------

    def connected(self, packet_nbytes: int | None, now: float) -> None:
        with self._guard:
            self._packet_nbytes = packet_nbytes
            largest = part_nbytes(packet_nbytes, float("inf"))
            for transfer in self._parcels.wait_again(largest):
                self._window.forget(transfer)
            self._put(self._window.reconnected(now))
        self._tell_failed()

    def disconnected(self) -> None:
        """Nobody can return a credit now, so nobody is given up for returning none."""
        with self._guard:
            self._window.disconnected()

    def fill(self, now: float) -> bool:
        """Hand on the next frame whose turn has come; False if none waits."""
        with self._guard:
            self._parcels.come_back(now)
            parcel = self._parcels.next()
        if parcel is None:
            return False
        try:
            self._hand_on(parcel, now)
        except (OSError, CrowdpipeError) as error:
            self._fail(parcel, error)
        self._tell_failed()
        return True

    def fill_at(self) -> float | None:
        """When `fill` has something to hand on though nothing else happens."""
        with self._guard:
            return self._parcels.back_at

    def acknowledged(self, message: Message) -> None:
        """By the broker, or refused by it."""
        with self._guard:
            self._parcels.confirmed(message)

    def heard_by_nobody(self, message: Message, now: float) -> None:
        """The broker had nobody to give it to: its reader has yet to come back to a broker that
        died and forgot it. Nothing else would tell that what it carries is lost."""
        with self._guard:
            for parcel in self._parcels.heard_by_nobody(message, now):
                if parcel.unheard > UNHEARD_LIMIT:
                    self._parcels.give_up(parcel)
                    error = TimedOut(f"nobody listens as {parcel.to}")
                    self._failed.append((parcel.to, parcel.activation, error))
        self._tell_failed()

    def credited(self, sender: str, credit: Credit, now: float) -> None:
        with self._guard:
            self._put((sender, part) for part in self._window.credited(sender, credit, now))
            if not self._window.knows(sender, credit.transfer):
                self._parcels.done(sender, credit.transfer)
        self._tell_failed()

    def _hand_on(self, parcel: Parcel, now: float) -> None:
        measured = parcel.source.measure()
        if measured is None:
            _log.info("not sent to %s: %s was let go", parcel.to, parcel.activation)
            return
        nbytes, attempt = measured
        transfer = Transfer(parcel.activation, attempt)
        most = part_nbytes(self._packet_nbytes, self._link.nbytes_per_s)
        if nbytes <= most:
            self._send_whole(parcel, transfer, min(most, BUNDLE_NBYTES))
        elif nbytes > most * MAX_PARTS:
            raise TooLarge(f"a frame of {nbytes} bytes takes more than {MAX_PARTS} parts")
        else:
            self._send_in_parts(parcel, transfer, most, now)

    def _send_whole(self, parcel: Parcel, transfer: Transfer, together_nbytes: int) -> None:
        part = _whole(parcel, transfer)
        if part is None:
            return
        together = {parcel: part}
        if len(part.data) <= SMALL_NBYTES:
            room_nbytes = together_nbytes - PIECE_HEAD_NBYTES - len(part.data)
            together.update(self._company(parcel.to, room_nbytes))
        self._publish_whole(parcel.to, together)

    def _publish_whole(self, to: str, together: dict[Parcel, Part]) -> None:
        message = self._messages.together(to, list(together.values()))
        try:
            self._publish(message)
        except CrowdpipeError as error:
            for each in together:
                self._fail(each, error)
            return
        with self._guard:  # in time: its acknowledgement comes to this thread
            self._parcels.sent(list(together), message)

    def _company(self, to: str, room_nbytes: int) -> Iterator[tuple[Parcel, Part]]:
        """What waits for the same reader, in its order, up to the first for which there is no
        room."""
        for _ in range(MAX_BUNDLED - 1):
            with self._guard:
                parcel = self._parcels.oldest_for(to)
            nbytes, attempt = _measured(parcel) or (SMALL_NBYTES + 1, 0)
            room_nbytes -= PIECE_HEAD_NBYTES + nbytes
            if parcel is None or nbytes > SMALL_NBYTES or room_nbytes < 0:
                return
            part = self._taken(parcel, Transfer(parcel.activation, attempt))
            if part is not None:
                yield parcel, part

    def _taken(self, parcel: Parcel, transfer: Transfer) -> Part | None:
        """Its frame, unless that was let go or is not to be sent any more. What cannot be read is
        told, and costs its company nothing."""
        with self._guard:
            wanted = self._parcels.take(parcel)
        try:
            return _whole(parcel, transfer) if wanted else None
        except (OSError, CrowdpipeError) as error:
            self._fail(parcel, error)
            return None

    def _send_in_parts(self, parcel: Parcel, transfer: Transfer, most: int, now: float) -> None:
        with self._guard:
            if self._parcels.is_paced(parcel.to, transfer):
                return  # under way already: what got no credit is offered again anyhow
            parcel.part_nbytes = most
            self._parcels.paced(parcel, transfer)
            due = self._window.offer(parcel.to, transfer, self._parts(parcel, transfer), now)
            self._put((parcel.to, part) for part in due)

    def _parts(self, parcel: Parcel, transfer: Transfer) -> Iterator[Part]:
        """Loads the frame when the first part is asked for, so that what waits takes no memory.
        Runs with the lock held, within the window."""
        frame = None
        try:
            frame = parcel.source.load()
        except (OSError, CrowdpipeError) as error:
            self._fail(parcel, error)
        if frame is None:
            self._parcels.done(parcel.to, transfer)
            return
        yield from split(transfer, frame, parcel.part_nbytes)

    def _put(self, parts: Iterable[tuple[str, Part]]) -> None:
        for to, part in parts:
            try:
                self._publish(self._messages.part(to, part))
            except QueueFull as error:  # as good as lost on the way, which credits mend
                _log.warning("a part is not sent: %s; it is offered again", error)

    def _fail(self, parcel: Parcel, error: OSError | CrowdpipeError) -> None:
        if isinstance(error, OSError):
            error = OperatorError(f"it cannot be read: {error}")
        self._failed.append((parcel.to, parcel.activation, error))

    def _tell(self, to: str, activation: ActivationId, error: CrowdpipeError) -> None:
        _log.warning("gave up sending %s to %s: %s", activation, to, error)
        self._give_up(to, activation, error)


def _whole(parcel: Parcel, transfer: Transfer) -> Part | None:
    """The frame in one part; None if it was let go."""
    frame = parcel.source.load()
    return None if frame is None else Part(transfer, 0, 1, len(frame), frame)


def _measured(parcel: Parcel | None) -> tuple[int, int] | None:
    """None if it was let go or cannot be read, which is found again when its own turn comes."""
    try:
        return None if parcel is None else parcel.source.measure()
    except (OSError, CrowdpipeError):
        return None
