"""What a connection is asked to read and what it tells: messages, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from wire.errors import CrowdpipeError
from wire.outbox import Message


@dataclass(frozen=True, slots=True)
class InboundMessage:
    """A message as it came; `retained` if it was published before we subscribed. `properties` as
    MQTT packs them, for `bus.user_properties`."""

    topic: str
    payload: bytes
    retained: bool
    properties: bytes = b""

    @classmethod
    def of(cls, came: Any) -> InboundMessage:
        """Of our own client's message, or of one that paho has read itself."""
        said = came.properties
        packed = said if isinstance(said, memoryview) else said.pack() if said else b""
        return cls(came.topic, bytes(came.payload), bool(came.retain), bytes(packed))


@dataclass(frozen=True, slots=True)
class Subscription:
    """`echoes`: also what we publish ourselves."""

    topic: str
    echoes: bool = False


class ConnectionListener(Protocol):
    """Called in the connection's thread, one call at a time.

    `will` is asked before each attempt, with the identity that the connection is going to have.
    `connected` comes after every subscription is granted, `disconnected` after each connection or
    attempt that was lost. `received` brings all but frames, which go to the courier. `refused`
    tells of a message that the broker did not take (`Refused`), or was not even sent because it
    would not (`TooLarge`). `ended` tells of a connection that is not tried again; it comes last.
    """

    def will(self, connection: str) -> Message | None: ...
    def connected(self, connection: str, reconnect: bool) -> None: ...
    def disconnected(self, reason: str) -> None: ...
    def received(self, message: InboundMessage) -> None: ...
    def refused(self, topic: str, error: CrowdpipeError) -> None: ...
    def ended(self, error: CrowdpipeError) -> None: ...
