"""The agent's connection against a real Mosquitto: identities, loss, refusals, drain."""

from __future__ import annotations

import queue
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from edge_agent.adapters.connection import Connection, Incoming
from edge_agent.adapters.link import Link

from tests.support.broker import BrokerUnderTest, fresh_name
from wire.broker_url import BrokerUrl
from wire.errors import CrowdpipeError, Refused, Replaced
from wire.outbox import Message, Numbered
from wire.topics import ORCHESTRATOR, Topics

TOPICS = Topics()
LIMIT_S = 20.0


def address(url: BrokerUrl, **changes: Any) -> BrokerUrl:
    plain = {"host": url.host, "port": url.port, "user": url.user, "secret": url.secret}
    return BrokerUrl(**{**plain, **changes})


class Listener:
    """Keeps what it is told; publishes what a test puts into `outbox`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.outbox: deque[Numbered] = deque()
        self.told: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.fault: str | None = None

    def will(self, connection: str) -> Message:
        return Message(TOPICS.device(self.name, "state"), connection.encode(), retain=True)

    def connected(self, connection: str, reconnect: bool, packet_nbytes: int | None) -> None:
        self.told.put(("connected", (connection, reconnect, packet_nbytes)))

    def disconnected(self, reason: str) -> None:
        self.told.put(("disconnected", reason))

    def received(self, message: Incoming) -> None:
        if message.payload == self.fault:
            raise RuntimeError("a fault in the listener")
        self.told.put(("received", message))

    def next_outgoing(self) -> Numbered | None:
        return self.outbox.popleft() if self.outbox else None

    def acknowledged(self, numbered: Numbered) -> None:
        self.told.put(("acknowledged", numbered.token))

    def refused(self, topic: str, error: Refused) -> None:
        self.told.put(("refused", error))

    def ended(self, error: CrowdpipeError) -> None:
        self.told.put(("ended", error))

    def next(self, kind: str) -> Any:
        while True:
            got, value = self.told.get(timeout=LIMIT_S)
            if got == kind:
                return value


class Agents:
    """Connections of one test, closed at its end."""

    def __init__(self) -> None:
        self.open: list[Connection] = []

    def connect(self, where: BrokerUrl, name: str, **filters: Any) -> Any:
        listener = Listener(name)
        first = (TOPICS.device(name, "state"),)
        then = filters.get("then", (TOPICS.device(name, "commands"), TOPICS.inbox(name)))
        connection = Connection(where, name, first, then, listener, Link())
        self.open.append(connection)
        connection.start()
        return connection, listener


@pytest.fixture
def agents() -> Iterator[Agents]:
    agents = Agents()
    yield agents
    for connection in agents.open:
        connection.close(0.1)


def test_every_connection_has_a_fresh_id_and_the_session_is_resumed(
    fresh_mosquitto: BrokerUnderTest, agents: Agents
):
    name = fresh_name()
    connection, listener = agents.connect(address(fresh_mosquitto.login(name)), name)
    first, reconnect, packet_nbytes = listener.next("connected")
    assert not reconnect
    assert packet_nbytes == 8 << 20
    fresh_mosquitto.stop()
    listener.next("disconnected")
    fresh_mosquitto.start()
    second, reconnect, _ = listener.next("connected")
    assert reconnect
    assert second != first
    assert connection.peer_host == "127.0.0.1"


def test_a_dead_agents_will_carries_the_id_of_its_connection(
    mosquitto: BrokerUnderTest, agents: Agents
):
    name = fresh_name()
    connection, listener = agents.connect(address(mosquitto.login(name)), name)
    identity, _, _ = listener.next("connected")
    with mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.device(name, "state"))
        cut(connection)
        will = watcher.next()
    assert will.payload == identity.encode()
    fresh, reconnect, _ = listener.next("connected")
    assert reconnect
    assert fresh != identity


def cut(connection: Connection) -> None:
    link = connection._client.socket()
    assert link is not None
    link.shutdown(2)


def test_what_was_retained_about_us_is_received_before_we_are_connected(
    mosquitto: BrokerUnderTest, agents: Agents
):
    name = fresh_name()
    where = address(mosquitto.login(name))
    with mosquitto.connect(ORCHESTRATOR, "orchestrator") as orchestrator:
        orchestrator.publish(TOPICS.device(name, "state"), b"as it was", retain=True)
    _, listener = agents.connect(where, name)
    kinds = [listener.told.get(timeout=LIMIT_S) for _ in range(2)]
    assert kinds[0][0] == "received"
    assert kinds[0][1].retained
    assert kinds[0][1].payload == b"as it was"
    assert kinds[1][0] == "connected"


def test_a_fault_in_the_listener_ends_nothing(mosquitto: BrokerUnderTest, agents: Agents):
    name = fresh_name()
    _, listener = agents.connect(address(mosquitto.login(name)), name)
    listener.next("connected")
    listener.fault = b"poison"
    with mosquitto.connect(ORCHESTRATOR, "orchestrator") as orchestrator:
        orchestrator.publish(TOPICS.device(name, "commands"), b"poison")
        orchestrator.publish(TOPICS.device(name, "commands"), b"fine")
    assert listener.next("received").payload == b"fine"


def test_a_refused_publish_is_a_typed_error(mosquitto: BrokerUnderTest, agents: Agents):
    name = fresh_name()
    connection, listener = agents.connect(address(mosquitto.login(name)), name)
    listener.next("connected")
    listener.outbox.append(Numbered(7, Message(TOPICS.data("someone", "else"), b"forged")))
    connection.wake()
    assert "someone/from/else" in str(listener.next("refused"))
    assert listener.next("acknowledged") == 7


def test_a_wrong_secret_ends_the_first_connection_with_what_to_check(
    mosquitto: BrokerUnderTest, agents: Agents
):
    name = fresh_name()
    where = address(mosquitto.login(name), secret="wrong")
    _, listener = agents.connect(where, name)
    error = listener.next("ended")
    assert isinstance(error, Refused)
    assert "secret" in str(error)


def test_a_broker_that_is_not_there_is_said_and_tried_again(
    fresh_mosquitto: BrokerUnderTest, agents: Agents
):
    name = fresh_name()
    where = address(fresh_mosquitto.login(name))
    fresh_mosquitto.stop()
    _, listener = agents.connect(where, name)
    assert where.shown in listener.next("disconnected")
    fresh_mosquitto.start()
    assert listener.next("connected")


CONNACK, TAKEN_OVER = b"\x20\x03\x00\x00\x00", b"\xe0\x01\x8e"


def test_who_was_taken_over_does_not_take_the_session_back(agents: Agents):
    """Mosquitto 2.1 says so; 2.0, as it is here, only closes. So a script plays the broker."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        _, listener = agents.connect(BrokerUrl("127.0.0.1", server.getsockname()[1]), "phone")
        link, _ = server.accept()
        with link:
            link.settimeout(LIMIT_S)
            assert link.recv(4096)[0] == 0x10
            link.sendall(CONNACK)
            assert link.recv(4096)[0] == 0x82
            link.sendall(TAKEN_OVER)
            assert isinstance(listener.next("ended"), Replaced)
        server.settimeout(1.5)
        with pytest.raises(TimeoutError):
            server.accept()


def test_closing_publishes_everything_first_and_leaves_no_will(
    mosquitto: BrokerUnderTest, agents: Agents
):
    name = fresh_name()
    connection, listener = agents.connect(address(mosquitto.login(name)), name)
    listener.next("connected")
    with mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.device(name, "#"))
        topic = TOPICS.device(name, "events")
        listener.outbox.extend(Numbered(i, Message(topic, b"%d" % i)) for i in range(100))
        connection.close(LIMIT_S)
        got = [watcher.next().payload for _ in range(100)]
        assert got == [b"%d" % i for i in range(100)]
        with pytest.raises(queue.Empty):
            watcher.next(0.5)


def test_a_message_says_what_it_carries_and_when_it_expires(
    mosquitto: BrokerUnderTest, agents: Agents
):
    name = fresh_name()
    connection, listener = agents.connect(address(mosquitto.login(name)), name)
    listener.next("connected")
    with mosquitto.connect(ORCHESTRATOR, "orchestrator") as orchestrator:
        orchestrator.subscribe(TOPICS.inbox(ORCHESTRATOR))
        topic = TOPICS.data(ORCHESTRATOR, name)
        properties = (("run", "r"), ("item", "3"))
        message = Message(topic, b"x", expiry_s=300, content_type="a/b", properties=properties)
        listener.outbox.append(Numbered(1, message))
        connection.wake()
        said = orchestrator.next().properties
    assert said.ContentType == "a/b"
    assert 0 < said.MessageExpiryInterval <= 300
    assert said.UserProperty == [("run", "r"), ("item", "3")]
