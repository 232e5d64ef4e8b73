"""Connections of one test to a real broker, and what each was told."""

from __future__ import annotations

import queue
from typing import Any

from bus.connection import Connection
from bus.connection_policy import DESK, ConnectionPolicy
from bus.courier import Courier
from bus.link import Link
from bus.listener import InboundMessage, Subscription
from tests.support.broker import BrokerUnderTest, fresh_name
from wire.broker_url import BrokerUrl
from wire.errors import CrowdpipeError
from wire.frame_head import FrameHead
from wire.ids import ActivationId
from wire.outbox import Message, Outbox
from wire.topics import Topics

TOPICS = Topics()
LIMIT_S = 20.0
REQUESTS = TOPICS.client("clients/client/s1", "requests")
RESPONSES = TOPICS.client("clients/client/s1", "responses")


class Listener:
    """Keeps what it is told, in order; of the connection and of a courier."""

    held_nbytes = 0

    def __init__(self, will: Message | None = None) -> None:
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.fault: bytes | None = None
        self.identities: list[str] = []
        self._will = will

    def will(self, connection: str) -> Message | None:
        self.identities.append(connection)
        return self._will

    def connected(self, connection: str, reconnect: bool) -> None:
        self.told.put(("connected", (connection, reconnect)))

    def disconnected(self, reason: str) -> None:
        self.told.put(("disconnected", reason))

    def received(self, message: InboundMessage) -> None:
        if message.payload == self.fault:
            raise RuntimeError("a fault in the listener")
        self.told.put(("received", message))

    def refused(self, topic: str, error: CrowdpipeError) -> None:
        self.told.put(("refused", error))

    def ended(self, error: CrowdpipeError) -> None:
        self.told.put(("ended", error))

    def keep(self, sender: str, header: FrameHead, frame: bytes) -> None:
        self.told.put(("kept", frame))

    def frame_arrived(self, sender: str, header: FrameHead) -> None:
        self.told.put(("arrived", sender))

    def frame_lost(self, sender: str, activation: ActivationId, error: CrowdpipeError) -> None:
        self.told.put(("lost", error))

    def frame_given_up(self, to: str, activation: ActivationId, error: CrowdpipeError) -> None:
        self.told.put(("given up", error))

    def next(self, kind: str) -> Any:
        while True:
            got, value = self.told.get(timeout=LIMIT_S)
            if got == kind:
                return value


class Parties:
    """Connections of one test, closed at its end."""

    def __init__(self) -> None:
        self.open: list[Connection] = []

    def client(
        self, broker: BrokerUnderTest, will: Message | None = None, outbox: Outbox | None = None
    ) -> tuple[Connection, Listener]:
        listener = Listener(will)
        then = (Subscription(RESPONSES),)
        return self._start(
            Connection(broker.client, fresh_name("client"), (), then, listener, outbox=outbox),
            listener,
        )

    def device(
        self, where: BrokerUrl, device: str, policy: ConnectionPolicy = DESK
    ) -> tuple[Connection, Listener]:
        listener = Listener()
        first = (Subscription(TOPICS.device(device, "state")),)
        then = (Subscription(TOPICS.device(device, "commands")),)
        return self._start(
            Connection(where, device, first, then, listener, policy=policy), listener
        )

    def with_frames(self, where: BrokerUrl, device: str) -> tuple[Courier, Listener, Connection]:
        listener, link = Listener(), Link()
        courier = Courier(TOPICS, device, listener, listener, link=link)
        then = (Subscription(TOPICS.inbox(device)),)
        connection, _ = self._start(
            Connection(where, device, (), then, listener, courier=courier, link=link), listener
        )
        return courier, listener, connection

    def _start(self, connection: Connection, listener: Listener) -> tuple[Connection, Listener]:
        self.open.append(connection)
        connection.start()
        return connection, listener
