"""The server side's connection against a real Mosquitto: identities, loss, refusals, drain."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from orchestrator.adapters.connection import Connection
from orchestrator.adapters.connection_listener import Incoming, Subscription

from tests.support.broker import BrokerUnderTest
from wire.errors import CrowdpipeError, QueueFull, Refused
from wire.outbox import Message, Outbox
from wire.topics import Topics

TOPICS = Topics()
LIMIT_S = 20.0
PARTY = "clients/client/s1"
REQUESTS = TOPICS.client(PARTY, "requests")
RESPONSES = TOPICS.client(PARTY, "responses")


class Listener:
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.fault: bytes | None = None
        self.last_will: Message | None = None

    def will(self, connection: str) -> Message | None:
        return self.last_will

    def connected(self, connection: str, reconnect: bool, packet_nbytes: int | None) -> None:
        self.told.put(("connected", (connection, reconnect)))

    def disconnected(self, reason: str) -> None:
        self.told.put(("disconnected", reason))

    def received(self, message: Incoming) -> None:
        if message.payload == self.fault:
            raise RuntimeError("a fault in the listener")
        self.told.put(("received", message))

    def roomy(self) -> None:
        pass

    def refused(self, topic: str, error: Refused) -> None:
        self.told.put(("refused", error))

    def ended(self, error: CrowdpipeError) -> None:
        self.told.put(("ended", error))

    def next(self, kind: str) -> Any:
        while True:
            got, value = self.told.get(timeout=LIMIT_S)
            if got == kind:
                return value


Connect = Callable[..., tuple[Connection, Listener]]


@pytest.fixture
def connect() -> Iterator[Connect]:
    opened: list[Connection] = []

    def make(
        broker: BrokerUnderTest, will: Message | None = None, outbox: Outbox | None = None
    ) -> tuple[Connection, Listener]:
        listener = Listener()
        listener.last_will = will
        connection = Connection(
            broker.client, "test-client", (), (Subscription(RESPONSES),), listener, outbox
        )
        opened.append(connection)
        connection.start()
        return connection, listener

    yield make
    for connection in opened:
        connection.close(0.1)


def test_what_is_said_while_the_broker_is_away_goes_out_when_it_is_back(
    fresh_mosquitto: BrokerUnderTest, connect: Connect
):
    connection, listener = connect(fresh_mosquitto)
    first, again = listener.next("connected")
    assert not again
    fresh_mosquitto.stop()
    listener.next("disconnected")
    for index in range(50):
        connection.publish(Message(REQUESTS, b"%d" % index, retain=index == 49))
    fresh_mosquitto.start()
    second, again = listener.next("connected")
    assert again
    assert second != first
    connection.close(LIMIT_S)
    with fresh_mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        assert watcher.next().payload == b"49"


def test_closing_publishes_everything_first_and_leaves_no_will(
    mosquitto: BrokerUnderTest, connect: Connect
):
    will = Message(REQUESTS, b"the will")
    connection, listener = connect(mosquitto, will)
    listener.next("connected")
    with mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        for index in range(200):
            connection.publish(Message(REQUESTS, b"%d" % index))
        connection.close(LIMIT_S)
        assert [watcher.next().payload for _ in range(200)] == [b"%d" % i for i in range(200)]
        with pytest.raises(queue.Empty):
            watcher.next(0.3)


def test_a_lost_connection_leaves_its_will(mosquitto: BrokerUnderTest, connect: Connect):
    connection, listener = connect(mosquitto, Message(REQUESTS, b"the will"))
    listener.next("connected")
    with mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        link: Any = connection._client.socket()
        link.shutdown(2)
        assert watcher.next().payload == b"the will"
    assert listener.next("connected")


def test_a_fault_in_the_listener_ends_nothing(mosquitto: BrokerUnderTest, connect: Connect):
    _, listener = connect(mosquitto)
    listener.next("connected")
    listener.fault = b"poison"
    with mosquitto.connect("orchestrator", "orchestrator") as orchestrator:
        orchestrator.publish(RESPONSES, b"poison")
        orchestrator.publish(RESPONSES, b"fine")
    assert listener.next("received").payload == b"fine"


def test_a_refused_publish_is_a_typed_error(mosquitto: BrokerUnderTest, connect: Connect):
    connection, listener = connect(mosquitto)
    listener.next("connected")
    connection.publish(Message(TOPICS.device("somebody", "assignment"), b"forged"))
    assert "somebody/assignment" in str(listener.next("refused"))


def test_at_the_outboxs_bound_publishing_fails_and_does_not_wait(
    fresh_mosquitto: BrokerUnderTest, connect: Connect
):
    connection, listener = connect(fresh_mosquitto, outbox=Outbox(max_nbytes=1000))
    listener.next("connected")
    fresh_mosquitto.stop()
    listener.next("disconnected")
    connection.publish(Message(REQUESTS, b"x" * 1000, control=False))
    with pytest.raises(QueueFull):
        connection.publish(Message(REQUESTS, b"x", control=False))
    connection.publish(Message(REQUESTS, b"control messages have a reserve"))
