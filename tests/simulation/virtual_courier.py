"""A party's frames on their way: whole, or in parts that are paced by credits and put together.

Parts, credits and their windows are the real ones; what is missing is only the spool and threads.
A frame is its head and what stands for its tensors. What is given up on the way is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from tests.simulation.clockwork import Clockwork
from wire import record
from wire.credits import CreditWindow
from wire.errors import CrowdpipeError
from wire.frame_head import FrameHead
from wire.ids import ActivationId
from wire.parts import (
    Credit,
    Part,
    Transfer,
    decode,
    encode_credit,
    encode_part,
    pieces_of,
    split,
)
from wire.planes import Buffer
from wire.reassembly import Reassembly

BOUND_NBYTES = 1 << 20
COMPLETED = 1024


@dataclass(frozen=True)
class Envelope:
    head: FrameHead
    value: str


class Owner(Protocol):
    """Who sends and takes frames here."""

    def say(self, to: str, payload: bytes) -> None: ...
    def take(self, sender: str, head: FrameHead, value: str) -> None: ...
    def lose(self, sender: str, activation: ActivationId, kind: str, reason: str) -> None: ...


class VirtualCourier:
    """`part_nbytes` None: every frame is one part. Ends with its process: nothing of it acts
    after `close`."""

    def __init__(self, clock: Clockwork, owner: Owner, part_nbytes: int | None) -> None:
        self._clock, self._owner = clock, owner
        self._part_nbytes = part_nbytes or BOUND_NBYTES
        self._window = CreditWindow()
        self._reassembly = Reassembly(BOUND_NBYTES)
        self._completed: dict[tuple[str, Transfer], None] = {}
        self._tick = 0
        self._open = True
        self.parts = 0

    def close(self) -> None:
        self._open = False

    def connected(self) -> None:
        self._publish(self._window.reconnected(self._clock.now))
        self._set_alarm()

    def disconnected(self) -> None:
        self._window.disconnected()

    def send(self, to: str, head: FrameHead, value: str) -> None:
        frame = record.encode(Envelope(head, value))
        transfer = Transfer(head.activation, head.attempt)
        parts = split(transfer, frame, self._part_nbytes)
        if len(frame) <= self._part_nbytes:
            self._publish((to, part) for part in parts)
        else:
            due = self._window.offer(to, transfer, parts, self._clock.now)
            self._publish((to, part) for part in due)
        self._set_alarm()

    def forget(self, activation: ActivationId, attempt: int) -> None:
        self._publish(self._window.forget(Transfer(activation, attempt), self._clock.now))

    def receive(self, sender: str, payload: bytes) -> None:
        for piece in pieces_of(payload):
            self._receive_piece(sender, piece)
        self._set_alarm()

    def _receive_piece(self, sender: str, piece: Buffer) -> None:
        said = decode(piece)
        if isinstance(said, Credit):
            due = self._window.credited(sender, said, self._clock.now)
            self._publish((sender, part) for part in due)
        else:
            self._receive_part(sender, said)

    def _receive_part(self, sender: str, part: Part) -> None:
        self.parts += part.count > 1
        try:
            frame = self._reassembly.add(sender, part, self._clock.now)
        except CrowdpipeError as error:
            self._owner.lose(sender, part.transfer.activation, error.kind, error.reason)
            return
        if part.count > 1:
            credit = Credit(part.transfer, part.index, part.count)
            self._owner.say(sender, encode_credit(credit))
        if frame is not None:
            self._completed[sender, part.transfer] = None
            if len(self._completed) > COMPLETED:
                del self._completed[next(iter(self._completed))]
            envelope: Envelope = record.decode(Envelope, bytes(frame))
            self._owner.take(sender, envelope.head, envelope.value)

    def _publish(self, parts: Iterable[tuple[str, Part]]) -> None:
        for to, part in parts:
            self._owner.say(to, encode_part(part))

    def _set_alarm(self) -> None:
        self._window.validate()
        self._reassembly.validate()
        times = (self._reassembly.wake_at(), self._window.wake_at())
        wake = min((when for when in times if when is not None), default=None)
        self._tick += 1
        tick = self._tick
        if wake is not None:
            self._clock.at(wake, lambda: self._expire() if tick == self._tick else None)

    def _expire(self) -> None:
        if not self._open:
            return
        now = self._clock.now
        abandoned = self._reassembly.expire(now)
        again, given_up = self._window.expire(now)
        self._publish(again)
        for lost in abandoned:
            if (lost.sender, lost.transfer) not in self._completed:
                self._owner.lose(lost.sender, lost.transfer.activation, "timed_out", lost.reason)
        for gone in given_up:
            self._owner.lose("", gone.transfer.activation, "timed_out", f"no credit from {gone.to}")
        self._set_alarm()
