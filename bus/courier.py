"""Carries frames between a party's store of them and its connection: parts, credits, both ways.

What comes whole goes to the keeper, and the listener is told; what is to be sent lies with its
source until its turn comes. Routing, and what a frame means, is for others to decide.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from bus.frame_messages import FrameMessages
from bus.inbound_frames import REASSEMBLY_NBYTES, FrameKeeper, FrameListener, InboundFrames
from bus.link import Link
from bus.outbound_frames import OutboundFrames
from bus.parcels import FrameSource
from wire.errors import CrowdpipeError
from wire.ids import ActivationId
from wire.outbox import Message
from wire.parts import Credit, decode, pieces_of
from wire.planes import Buffer
from wire.topics import Topics

_log = logging.getLogger("crowdpipe.courier")


class Courier:
    """Of party `us`; given to the one connection that carries for it. `bound_nbytes` limits frames
    that come in and are not taken yet. `link` tells how fast what we send leaves. Safe to use from
    several threads."""

    def __init__(
        self,
        topics: Topics,
        us: str,
        keeper: FrameKeeper,
        listener: FrameListener,
        *,
        bound_nbytes: int = REASSEMBLY_NBYTES,
        link: Link | None = None,
    ) -> None:
        self._topics = topics
        self._publish: Callable[[Message], None] | None = None
        self._wake: Callable[[], None] | None = None
        messages = FrameMessages(topics, us)
        self._inbound = InboundFrames(messages, self._say, keeper, listener, bound_nbytes)
        self._outbound = OutboundFrames(
            messages, self._say, Link() if link is None else link, listener.frame_given_up
        )

    # --- for whoever sends --------------------------------------------------------------------

    def send(self, to: str, activation: ActivationId, source: FrameSource) -> None:
        """Send a frame when its turn comes. Raises `QueueFull` if too many wait."""
        self._outbound.send(to, activation, source)
        if self._wake is not None:
            self._wake()

    def forget(self, activation: ActivationId) -> None:
        """Send it to nobody any more."""
        self._outbound.forget(activation, time.monotonic())

    def forget_run(self, run: str) -> None:
        """Send nothing of this run any more."""
        self._outbound.forget_run(run, time.monotonic())

    def limit_reassembly(self, timeout_s: float) -> None:
        self._inbound.limit_time(timeout_s)

    def expire(self, now: float) -> None:
        """Repeat what was not credited, and give up what waited too long, either way."""
        self._inbound.expire(now)
        self._outbound.expire(now)

    def wake_at(self) -> float | None:
        """When `expire` has something to do."""
        times = (self._inbound.wake_at(), self._outbound.wake_at())
        return min((each for each in times if each is not None), default=None)

    # --- for the connection -------------------------------------------------------------------

    def join(self, publish: Callable[[Message], None], wake: Callable[[], None]) -> None:
        """This is how our messages go out, and how to say that a frame waits."""
        self._publish, self._wake = publish, wake

    def reads(self, topic: str) -> bool:
        return self._topics.is_data(topic)

    def received(self, topic: str, payload: Buffer) -> None:
        """A message on a data topic; what is neither part nor credit is refused."""
        try:
            _, sender = self._topics.sender(topic)
            pieces = pieces_of(payload)
        except CrowdpipeError as error:
            _log.warning("refused a message on %s: %s", topic, error)
            return
        for piece in pieces:
            try:
                self._piece_received(sender, piece)
            except Exception as error:  # a fault of ours, or a lie: the other pieces are good
                known = isinstance(error, CrowdpipeError)
                _log.warning("refused a message on %s: %s", topic, error, exc_info=not known)

    def _piece_received(self, sender: str, piece: Buffer) -> None:
        said = decode(piece)
        if isinstance(said, Credit):
            self._outbound.credited(sender, said, time.monotonic())
        else:
            self._inbound.received(sender, said, time.monotonic())

    def connected(self, packet_nbytes: int | None) -> None:
        """`packet_nbytes`: the largest packet that the broker takes, if it has a limit."""
        self._outbound.connected(packet_nbytes, time.monotonic())

    def disconnected(self) -> None:
        self._outbound.disconnected()

    def fill(self) -> bool:
        """The outbox holds little: hand on the next frame; False if none waits."""
        return self._outbound.fill(time.monotonic())

    def fill_at(self) -> float | None:
        """When there is a frame to hand on though nothing else happens."""
        return self._outbound.fill_at()

    def acknowledged(self, message: Message) -> None:
        self._outbound.acknowledged(message)

    def heard_by_nobody(self, message: Message) -> None:
        """The broker took it, and had nobody to give it to."""
        self._outbound.heard_by_nobody(message, time.monotonic())

    def _say(self, message: Message) -> None:
        if self._publish is not None:
            self._publish(message)
