"""Frames on their way in: parts are put together within a bound and credited to their sender.

A whole frame is kept by its keeper and then told. At the bound, which also counts what the keeper
still holds, a part of a larger frame gets no credit until there is room, and a frame in one part
is told as lost, so that it is sent again. What cannot be taken is told as lost, never dropped in
silence.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from bus.frame_messages import FrameMessages
from wire.errors import CrowdpipeError, Malformed, QueueFull, TimedOut, TooLarge
from wire.frame_head import FrameHead
from wire.frames import peek
from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import Part, Transfer
from wire.reassembly import Reassembly

REASSEMBLY_NBYTES = 256 << 20
REASSEMBLY_S = 60.0
REMEMBERED = 4096  # transfers that ended, so that a late part of one is no lost frame

_log = logging.getLogger("crowdpipe.courier")


class FrameKeeper(Protocol):
    """Where frames that came whole lie until whoever was told of them takes them."""

    @property
    def held_nbytes(self) -> int:
        """What counts towards the bound of frames that come in."""

    def keep(self, sender: str, header: FrameHead, frame: bytes) -> None:
        """Raises a `CrowdpipeError` if it cannot: the frame is then told as lost."""


class FrameListener(Protocol):
    """Called in whichever thread brought the news, without a lock held."""

    def frame_arrived(self, sender: str, header: FrameHead) -> None: ...
    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None: ...
    def frame_given_up(self, to: str, activation: ActivationId, error: CrowdpipeError) -> None: ...


class InboundFrames:
    """Safe to use from several threads."""

    def __init__(
        self,
        messages: FrameMessages,
        publish: Callable[[Message], None],
        keeper: FrameKeeper,
        listener: FrameListener,
        bound_nbytes: int,
    ) -> None:
        self._messages = messages
        self._publish = publish
        self._keeper = keeper
        self._listener = listener
        self._bound_nbytes = bound_nbytes
        self._guard = threading.Lock()
        self._reassembly = Reassembly(bound_nbytes, REASSEMBLY_S)
        self._finished: dict[tuple[str, Transfer], None] = {}
        self._refused: dict[tuple[str, Transfer], None] = {}

    def limit_time(self, timeout_s: float) -> None:
        """So long a frame may be incomplete after its last part."""
        self._reassembly.timeout_s = timeout_s

    def received(self, sender: str, part: Part, now: float) -> None:
        try:
            header = self._taken(sender, part, now)
        except CrowdpipeError as error:
            self._tell_lost(sender, part.transfer.activation, error)
            return
        if header is not None:
            self._listener.frame_arrived(sender, header)

    def _taken(self, sender: str, part: Part, now: float) -> FrameHead | None:
        """The header of the frame that this part completes, kept."""
        if not self._admitted(sender, part, now):
            return None
        with self._guard:
            whole = self._reassembly.add(sender, part, now, self._keeper.held_nbytes)
        if part.count > 1:
            self._give_credit(sender, part)
        if whole is None:
            return None
        frame = bytes(whole)
        with self._guard:
            _remember(self._finished, (sender, part.transfer))
        header = peek(frame)
        if header.activation != part.transfer.activation:
            raise Malformed(f"a frame of {header.activation} came as {part.transfer.activation}")
        self._keeper.keep(sender, header, frame)
        return header

    def _admitted(self, sender: str, part: Part, now: float) -> bool:
        """Whether to take this part now. A frame that can never be taken is told once and its
        parts are credited, so that its sender comes to an end with it."""
        if part.total_nbytes > self._bound_nbytes:
            self._refuse(sender, part)
            return False
        held_nbytes = self._keeper.held_nbytes
        with self._guard:
            if self._reassembly.admits(sender, part, now, held_nbytes):
                return True
            taken = held_nbytes + self._reassembly.nbytes
        if part.count > 1:
            return False  # without a credit its sender offers it again
        raise QueueFull(f"{taken} bytes of frames wait here already; send it again later")

    def _refuse(self, sender: str, part: Part) -> None:
        if part.count > 1:
            self._give_credit(sender, part)
        with self._guard:
            known = (sender, part.transfer) in self._refused
            _remember(self._refused, (sender, part.transfer))
        if not known:
            raise TooLarge(
                f"a frame of {part.total_nbytes} bytes is more than the {self._bound_nbytes} "
                "that may wait here"
            )

    def _give_credit(self, sender: str, part: Part) -> None:
        try:
            self._publish(self._messages.credit(sender, part))
        except QueueFull as error:
            _log.warning("a credit is not sent: %s; its part will come again", error)

    def expire(self, now: float) -> None:
        """Give up what stayed incomplete for too long."""
        with self._guard:
            abandoned = [
                each
                for each in self._reassembly.expire(now)
                if (each.sender, each.transfer) not in self._finished
            ]
        for each in abandoned:
            error = TimedOut(f"a frame stayed incomplete: {each.reason}")
            self._tell_lost(each.sender, each.transfer.activation, error)

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        with self._guard:
            return self._reassembly.wake_at()

    def _tell_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None:
        _log.warning("lost %s from %s: %s", activation, sender, error)
        self._listener.frame_lost(sender, activation, error)


def _remember(keys: dict[tuple[str, Transfer], None], key: tuple[str, Transfer]) -> None:
    keys[key] = None
    if len(keys) > REMEMBERED:
        del keys[next(iter(keys))]
