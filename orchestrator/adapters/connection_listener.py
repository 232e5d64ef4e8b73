"""What a connection tells: the messages that came, and what became of the connection itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wire.errors import CrowdpipeError, Refused
from wire.outbox import Message


@dataclass(frozen=True, slots=True)
class Incoming:
    topic: str
    payload: bytes
    retained: bool
    content_type: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """`echoes`: also what we publish ourselves."""

    topic: str
    echoes: bool = False


class ConnectionListener(Protocol):
    """Called in the connection's thread, one call at a time.

    `connected` comes after every subscription is granted. `roomy` says that the outbox holds
    little: whoever has more to publish may do so. `ended` comes last, if it ends by itself.
    """

    def will(self, connection: str) -> Message | None: ...
    def connected(self, connection: str, reconnect: bool, packet_nbytes: int | None) -> None: ...
    def disconnected(self, reason: str) -> None: ...
    def received(self, message: Incoming) -> None: ...
    def roomy(self) -> None: ...
    def refused(self, topic: str, error: Refused) -> None: ...
    def ended(self, error: CrowdpipeError) -> None: ...
