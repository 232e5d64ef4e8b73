"""How a connection ends, against a real Mosquitto: everything is said, and nothing waits for it."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bus.connection import Connection
from bus.connection_policy import ConnectionPolicy
from bus.connection_state import ConnectionState
from tests.support.broker import BrokerUnderTest, fresh_name
from tests.support.bus_parties import LIMIT_S, REQUESTS, TOPICS, Listener, Parties
from wire.outbox import Message
from wire.topics import ORCHESTRATOR


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


LAST_WORDS = """
import sys
from bus.connection import Connection
from tests.support.bus_parties import LIMIT_S, REQUESTS, Listener
from wire.broker_url import parse_url
from wire.outbox import Message

listener = Listener()
connection = Connection(parse_url(sys.argv[1]), "last-words", (), (), listener)
connection.start()
listener.next("connected")
for index in range(300):
    connection.publish(Message(REQUESTS, b"%d" % index))
connection.close(LIMIT_S)
"""


def test_what_a_program_says_just_before_it_exits_is_not_lost(mosquitto: BrokerUnderTest):
    with mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        command = [sys.executable, "-c", LAST_WORDS, str(mosquitto.client)]
        subprocess.run(command, check=True, timeout=LIMIT_S)
        assert [watcher.next().payload for _ in range(300)] == [b"%d" % i for i in range(300)]


def test_whoever_turns_and_has_nothing_to_say_is_closed_at_once(
    mosquitto: BrokerUnderTest,
) -> None:
    connection = Connection(mosquitto.client, "client", (), (), Listener())
    connection.open()
    limit = time.monotonic() + LIMIT_S
    while connection.state is not ConnectionState.UP:
        assert time.monotonic() < limit
        connection.turn(0.1)
    begun = time.monotonic()
    connection.close(LIMIT_S)
    assert time.monotonic() - begun < 2.0
