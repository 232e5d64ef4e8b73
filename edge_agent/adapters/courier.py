"""Carries frames and messages between the spool and the connection: lanes, parts, credits.

What waits to be sent is a list of names; bytes leave the spool when their turn comes, so that a
slow link costs no memory. Control messages go first. After a disconnection the outbox starts
empty: the machine says everything about itself anew, and frames that the broker did not
acknowledge are sent again. Incoming parts are put together within the bound of what may be held;
what is given up is reported, never dropped in silence. Routing is the machine's decision.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from edge_agent.adapters.link import Link
from edge_agent.adapters.store.spool import FrameMissing, Spool
from wire.credits import CreditWindow
from wire.errors import CrowdpipeError, Malformed, QueueFull, TimedOut, TooLarge
from wire.frames import Header, attempt_of, peek
from wire.ids import ActivationId
from wire.outbox import Message, Numbered, Outbox
from wire.parts import (
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

FRAME_EXPIRY_S = 300
MAX_INFLIGHT = 16
READY_NBYTES = 1 << 20  # frames taken out of the spool ahead of the link, beyond this none
COMPLETED = 1024  # transfers remembered, so that a late repeat of a part is no lost frame

_log = logging.getLogger("crowdpipe.agent.courier")


class CourierListener(Protocol):
    """Called without the courier's lock, in the thread that brought the news."""

    def frame_arrived(self, sender: str, header: Header) -> None: ...
    def frame_lost(self, activation: ActivationId, error: CrowdpipeError) -> None: ...


class Courier:
    """Safe to use from several threads. `wake` is called when there is something to publish."""

    def __init__(
        self,
        topics: Topics,
        name: str,
        spool: Spool,
        hold_nbytes: int,
        listener: CourierListener,
        wake: Callable[[], None],
        link: Link,
    ) -> None:
        self._topics = topics
        self._name = name
        self._spool = spool
        self._listener = listener
        self._wake = wake
        self._link = link
        self._guard = threading.Lock()
        self._reassembly = Reassembly(hold_nbytes)
        self._window = CreditWindow()
        self._outbox = Outbox(MAX_INFLIGHT)
        self._ready: deque[Numbered] = deque()
        self._packet_nbytes: int | None = None
        self._waiting: dict[tuple[ActivationId, str], None] = {}
        self._unconfirmed: dict[int, tuple[Message, tuple[ActivationId, str]]] = {}
        self._transfers: dict[ActivationId, Transfer] = {}
        self._completed: dict[tuple[str, Transfer], None] = {}

    # --- the connection's side ----------------------------------------------------------------

    def connected(self, packet_nbytes: int | None) -> None:
        with self._guard:
            self._packet_nbytes = packet_nbytes
            self._outbox = Outbox(MAX_INFLIGHT)
            self._ready.clear()
            self._ready.extend(self._outbox.connected(session_present=False))
            again = dict.fromkeys(key for _, key in self._unconfirmed.values())
            self._unconfirmed.clear()
            self._waiting = again | self._waiting
            self._put_parts(self._window.reconnected(time.monotonic()))

    def disconnected(self) -> None:
        with self._guard:
            self._outbox.disconnected()
            self._window.disconnected()
            self._ready.clear()

    def next_outgoing(self) -> Numbered | None:
        with self._guard:
            if not self._ready:
                self._fill()
            return self._ready.popleft() if self._ready else None

    def acknowledged(self, numbered: Numbered) -> None:
        with self._guard:
            self._unconfirmed.pop(id(numbered.message), None)
            self._ready.extend(self._outbox.acknowledged(numbered.token))

    def received(self, sender: str, payload: bytes) -> None:
        """A part or a credit. Raises `Malformed` if it is neither."""
        said = decode(payload)
        if isinstance(said, Credit):
            with self._guard:
                parts = self._window.credited(sender, said, time.monotonic())
                self._put_parts((sender, part) for part in parts)
        else:
            self._received_part(sender, said)

    def _received_part(self, sender: str, part: Part) -> None:
        activation = part.transfer.activation
        try:
            with self._guard:
                frame = self._reassembly.add(sender, part, time.monotonic())
                if part.count > 1:
                    self._put_credit(sender, part)
            if frame is not None:
                self._received_frame(sender, part.transfer, bytes(frame))
        except CrowdpipeError as error:
            _log.warning("lost %s from %s: %s", activation, sender, error)
            self._listener.frame_lost(activation, error)

    def _received_frame(self, sender: str, transfer: Transfer, frame: bytes) -> None:
        header = peek(frame)
        if (header.activation, header.attempt) != (transfer.activation, transfer.attempt):
            raise Malformed(f"a frame of {header.activation} came as {transfer.activation}")
        self._spool.put(header.activation, "input", frame)
        with self._guard:
            self._completed[(sender, transfer)] = None
            if len(self._completed) > COMPLETED:
                del self._completed[next(iter(self._completed))]
        self._listener.frame_arrived(sender, header)

    # --- the machine's side -------------------------------------------------------------------

    def publish(self, message: Message) -> None:
        """A control message. At the outbox's bound it is dropped: the machine repeats events
        until they are acknowledged, and what is retained with its next change."""
        with self._guard:
            try:
                self._ready.extend(self._outbox.put(message))
            except QueueFull as error:
                _log.warning("%s", error)
        self._wake()

    def send_frame(self, activation: ActivationId, to: str) -> None:
        """Send a held output when its turn comes. Asking twice while it waits sends it once.
        What we need ourselves does not take the way through the broker."""
        if to == self._name:
            self._loop_back(activation)
            return
        with self._guard:
            self._waiting.setdefault((activation, to))
        self._wake()

    def _loop_back(self, activation: ActivationId) -> None:
        try:
            frame = self._spool.get(activation, "output")
            self._spool.put(activation, "input", frame)
        except FrameMissing as error:
            _log.info("not kept for ourselves: %s", error)
        except CrowdpipeError as error:
            self._listener.frame_lost(activation, error)
        else:
            self._listener.frame_arrived(self._name, peek(frame))

    def forget(self, activation: ActivationId) -> None:
        """Send this output to nobody any more."""
        with self._guard:
            for key in [key for key in self._waiting if key[0] == activation]:
                del self._waiting[key]
            unconfirmed = self._unconfirmed.items()
            for number in [number for number, (_, key) in unconfirmed if key[0] == activation]:
                del self._unconfirmed[number]
            transfer = self._transfers.pop(activation, None)
            if transfer is not None:
                self._put_parts(self._window.forget(transfer, time.monotonic()))
        self._wake()

    def limit_reassembly(self, timeout_s: float) -> None:
        self._reassembly.timeout_s = timeout_s

    def expires_at(self) -> float | None:
        with self._guard:
            times = (self._reassembly.wake_at(), self._window.wake_at())
        return min((time_s for time_s in times if time_s is not None), default=None)

    def expire(self, now: float) -> None:
        """Give up what waited too long, and offer again what got no credit."""
        with self._guard:
            abandoned = self._reassembly.expire(now)
            again, given_up = self._window.expire(now)
            self._put_parts(again)
            lost = [
                (each.transfer.activation, each.reason)
                for each in abandoned
                if (each.sender, each.transfer) not in self._completed
            ]
        lost += [
            (each.transfer.activation, f"{each.to} returned no credit for it") for each in given_up
        ]
        for activation, reason in lost:
            _log.warning("gave up %s: %s", activation, reason)
            self._listener.frame_lost(activation, TimedOut(reason))
        if again:
            self._wake()

    # --- with the lock held -------------------------------------------------------------------

    def _fill(self) -> None:
        """Take frames whose turn has come out of the spool."""
        while self._waiting and self._outbox.nbytes < READY_NBYTES and not self._ready:
            activation, to = next(iter(self._waiting))
            del self._waiting[(activation, to)]
            try:
                self._begin(activation, to, self._spool.get(activation, "output"))
            except FrameMissing as error:  # released meanwhile: nobody needs it any more
                _log.info("not sent to %s: %s", to, error)
            except (TooLarge, OSError) as error:
                _log.error("cannot send %s to %s: %s", activation, to, error)

    def _begin(self, activation: ActivationId, to: str, frame: bytes) -> None:
        transfer = Transfer(activation, attempt_of(frame))
        most = part_nbytes(self._packet_nbytes, self._link.nbytes_per_s)
        if len(frame) > most:
            self._transfers[activation] = transfer
            parts = self._parts(transfer, most)
            due = self._window.offer(to, transfer, parts, time.monotonic())
            self._put_parts((to, part) for part in due)
            return
        message = self._part_message(to, Part(transfer, 0, 1, len(frame), frame))
        self._unconfirmed[id(message)] = (message, (activation, to))
        self._put(message)

    def _parts(self, transfer: Transfer, most: int) -> Iterator[Part]:
        """Made from the spool when the first is wanted, so that waiting frames take no memory."""
        try:
            frame = self._spool.get(transfer.activation, "output")
        except FrameMissing:
            return
        yield from split(transfer, frame, most)

    def _put_parts(self, parts: Iterable[tuple[str, Part]]) -> None:
        for to, part in parts:
            self._put(self._part_message(to, part))

    def _part_message(self, to: str, part: Part) -> Message:
        return self._data_message(to, encode_part(part), part.transfer, False)

    def _put_credit(self, to: str, part: Part) -> None:
        credit = encode_credit(Credit(part.transfer, part.index, part.count))
        self._put(self._data_message(to, credit, part.transfer, True))

    def _put(self, message: Message) -> None:
        """A part or credit that finds no room is as good as lost on the way, which credits mend;
        a frame in one part always does, since it is only taken while there is room."""
        try:
            self._ready.extend(self._outbox.put(message))
        except QueueFull as error:
            _log.warning("%s", error)

    def _data_message(self, to: str, payload: bytes, transfer: Transfer, urgent: bool) -> Message:
        activation = transfer.activation
        return Message(
            topic=self._topics.data(to, self._name),
            payload=payload,
            expiry_s=FRAME_EXPIRY_S,
            content_type=FRAME_CONTENT_TYPE,
            properties=(
                ("run", activation.run),
                ("item", str(activation.item)),
                ("cut", str(activation.cut)),
            ),
            control=urgent,
        )
