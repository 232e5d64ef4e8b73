"""How a connection ends, against a real Mosquitto: everything is said, and nothing waits for it."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bus.connection import Connection
from bus.connection_policy import DESK, ConnectionPolicy
from bus.connection_state import ConnectionState
from bus.courier import Courier
from bus.link import Link
from bus.listener import InboundMessage, Subscription
from tests.support.broker import BrokerUnderTest, fresh_name
from wire.broker_url import BrokerUrl
from wire.errors import CrowdpipeError
from wire.frame_head import FrameHead
from wire.ids import ActivationId
from wire.outbox import Message, Outbox
from wire.topics import ORCHESTRATOR, Topics

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


@pytest.fixture
def parties() -> Iterator[Parties]:
    parties = Parties()
    yield parties
    for connection in parties.open:
        connection.close(0.1)


def test_closing_publishes_everything_first_and_leaves_no_will(
    mosquitto: BrokerUnderTest, parties: Parties
):
    connection, listener = parties.client(mosquitto, Message(REQUESTS, b"the will"))
    listener.next("connected")
    with mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        for index in range(200):
            connection.publish(Message(REQUESTS, b"%d" % index))
        connection.close(LIMIT_S)
        assert connection.state is ConnectionState.CLOSED
        assert [watcher.next().payload for _ in range(200)] == [b"%d" % i for i in range(200)]
        with pytest.raises(queue.Empty):
            watcher.next(0.3)


def test_closing_ends_the_session_so_that_nothing_waits_for_who_is_gone(
    mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    where = mosquitto.login(device)
    connection, listener = parties.device(where, device)
    listener.next("connected")
    connection.close(LIMIT_S)
    resumed = mosquitto.connect(device)
    resumed._client._client_id = device.encode()
    resumed._clean = False
    _, session_present, _ = resumed.connect()
    resumed.close()
    assert not session_present


def test_a_connection_that_is_not_up_closes_at_once(
    fresh_mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    where = fresh_mosquitto.login(device)
    fresh_mosquitto.stop()
    connection, listener = parties.device(
        where, device, ConnectionPolicy(first_delay_s=60.0, longest_delay_s=60.0)
    )
    listener.next("disconnected")
    begun = time.monotonic()
    connection.close(LIMIT_S)
    assert connection.state is ConnectionState.CLOSED
    assert time.monotonic() - begun < LIMIT_S / 2


def test_a_connection_that_never_started_can_be_closed(mosquitto: BrokerUnderTest):
    connection = Connection(mosquitto.client, "never", (), (), Listener())
    connection.close(LIMIT_S)


def test_a_message_says_what_it_carries_and_when_it_expires(
    mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    connection, listener = parties.device(mosquitto.login(device), device)
    listener.next("connected")
    with mosquitto.connect(ORCHESTRATOR, ORCHESTRATOR) as orchestrator:
        orchestrator.subscribe(TOPICS.inbox(ORCHESTRATOR))
        topic = TOPICS.data(ORCHESTRATOR, device)
        properties = (("run", "r"), ("item", "3"))
        connection.publish(
            Message(topic, b"x", expiry_s=300, content_type="a/b", properties=properties)
        )
        said: Any = orchestrator.next().properties
    assert said.ContentType == "a/b"
    assert 0 < said.MessageExpiryInterval <= 300
    assert said.UserProperty == [("run", "r"), ("item", "3")]
