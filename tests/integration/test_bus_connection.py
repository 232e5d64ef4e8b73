"""The connection against a real Mosquitto: identities, loss, refusals, limits, drain."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from broker_config.configuration import BrokerLimits
from bus.connection import Connection
from bus.connection_policy import ConnectionPolicy
from bus.connection_state import ConnectionState
from tests.support.broker import BrokerUnderTest, fresh_name
from tests.support.bus_parties import LIMIT_S, REQUESTS, RESPONSES, TOPICS, Parties
from tests.support.courier_side import KeptFrame, frame, name
from wire.broker_url import BrokerUrl
from wire.errors import QueueFull, Refused, Replaced, TooLarge
from wire.outbox import Message, Outbox
from wire.topics import ORCHESTRATOR


@pytest.fixture
def parties() -> Iterator[Parties]:
    parties = Parties()
    yield parties
    for connection in parties.open:
        connection.close(0.1)


def cut(connection: Connection) -> None:
    """As a network does that goes away."""
    link: Any = connection._client.socket()
    assert link is not None
    with socket.socket(fileno=os.dup(link.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)


def test_every_connection_has_an_identity_of_its_own_and_the_session_is_resumed(
    fresh_mosquitto: BrokerUnderTest, parties: Parties
):
    connection, listener = parties.client(fresh_mosquitto)
    first, reconnect = listener.next("connected")
    assert not reconnect
    assert connection.state is ConnectionState.UP
    fresh_mosquitto.stop()
    listener.next("disconnected")
    fresh_mosquitto.start()
    second, reconnect = listener.next("connected")
    assert reconnect
    assert second != first
    assert {first, second} <= set(listener.identities)
    assert connection.peer_host == "127.0.0.1"


def test_what_came_for_us_while_we_were_cut_off_is_received_afterwards(
    mosquitto: BrokerUnderTest, parties: Parties
):
    connection, listener = parties.client(mosquitto)
    listener.next("connected")
    with mosquitto.connect(ORCHESTRATOR, ORCHESTRATOR) as orchestrator:
        cut(connection)
        listener.next("disconnected")
        orchestrator.publish(RESPONSES, b"meanwhile")
    assert listener.next("received").payload == b"meanwhile"


def test_what_was_retained_is_received_before_we_are_connected(
    mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    where = mosquitto.login(device)
    with mosquitto.connect(ORCHESTRATOR, ORCHESTRATOR) as orchestrator:
        orchestrator.publish(TOPICS.device(device, "state"), b"as it was", retain=True)
    _, listener = parties.device(where, device)
    kinds = [listener.told.get(timeout=LIMIT_S) for _ in range(2)]
    assert [kind for kind, _ in kinds] == ["received", "connected"]
    assert (kinds[0][1].payload, kinds[0][1].retained) == (b"as it was", True)


def test_a_lost_connection_leaves_its_will_and_is_made_again(
    mosquitto: BrokerUnderTest, parties: Parties
):
    connection, listener = parties.client(mosquitto, Message(REQUESTS, b"the will"))
    listener.next("connected")
    with mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        cut(connection)
        assert watcher.next().payload == b"the will"
    _, reconnect = listener.next("connected")
    assert reconnect


def test_a_fault_in_the_listener_ends_nothing(mosquitto: BrokerUnderTest, parties: Parties):
    _, listener = parties.client(mosquitto)
    listener.next("connected")
    listener.fault = b"poison"
    with mosquitto.connect(ORCHESTRATOR, ORCHESTRATOR) as orchestrator:
        orchestrator.publish(RESPONSES, b"poison")
        orchestrator.publish(RESPONSES, b"fine")
    assert listener.next("received").payload == b"fine"


def test_a_refused_publish_is_a_typed_error(mosquitto: BrokerUnderTest, parties: Parties):
    connection, listener = parties.client(mosquitto)
    listener.next("connected")
    connection.publish(Message(TOPICS.device("somebody", "assignment"), b"forged"))
    error = listener.next("refused")
    assert isinstance(error, Refused)
    assert "somebody/assignment" in str(error)


def test_a_wrong_secret_ends_the_first_connection_with_what_to_check(
    mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    where = mosquitto.login(device).login(device, "wrong")
    connection, listener = parties.device(where, device)
    error = listener.next("ended")
    assert isinstance(error, Refused)
    assert "secret" in str(error)
    assert connection.state is ConnectionState.FAILED


def test_a_broker_that_is_not_there_is_said_and_tried_again(
    fresh_mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    where = fresh_mosquitto.login(device)
    fresh_mosquitto.stop()
    _, listener = parties.device(where, device)
    assert where.shown in listener.next("disconnected")
    fresh_mosquitto.start()
    assert listener.next("connected")


CONNACK, TAKEN_OVER = b"\x20\x03\x00\x00\x00", b"\xe0\x01\x8e"


def test_who_was_taken_over_does_not_take_the_session_back(parties: Parties):
    """Mosquitto 2.1 says so; 2.0, as it is here, only closes. So a script plays the broker."""
    policy = ConnectionPolicy(one_identity="give each agent its own name")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        where = BrokerUrl("127.0.0.1", server.getsockname()[1])
        _, listener = parties.device(where, "phone", policy)
        link, _ = server.accept()
        with link:
            link.settimeout(LIMIT_S)
            assert link.recv(4096)[0] == 0x10
            link.sendall(CONNACK)
            assert link.recv(4096)[0] == 0x82
            link.sendall(TAKEN_OVER)
            error = listener.next("ended")
        assert isinstance(error, Replaced)
        assert "as phone; give each agent its own name" in str(error)
        server.settimeout(1.5)
        with pytest.raises(TimeoutError):
            server.accept()


def test_what_answers_but_is_no_broker_is_said(parties: Parties):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LIMIT_S)
        where = BrokerUrl("127.0.0.1", server.getsockname()[1])
        connection, listener = parties.device(where, "phone")
        link, _ = server.accept()
        with link:
            link.sendall(b"HTTP/1.1 400 Bad Request\r\n" + 20 * b"Server: of pages\r\n")
            assert "does not speak MQTT 5" in listener.next("disconnected")
        connection.close(0.0)
    assert connection.state is ConnectionState.CLOSED


@pytest.fixture
def narrow_mosquitto(tmp_path: Path) -> Iterator[BrokerUnderTest]:
    """One that takes packets of at most 32 KiB, and says so."""
    under_test = BrokerUnderTest(tmp_path / "mosquitto", limits=BrokerLimits(packet_nbytes=32_768))
    under_test.start()
    yield under_test
    under_test.stop()


def test_frames_pass_a_broker_with_small_packets(
    narrow_mosquitto: BrokerUnderTest, parties: Parties
):
    one, two = (fresh_name() for _ in range(2))
    sender, told, connection = parties.with_frames(narrow_mosquitto.login(one), one)
    _, reader, _ = parties.with_frames(narrow_mosquitto.login(two), two)
    told.next("connected")
    reader.next("connected")
    assert connection.packet_nbytes == 32_768
    sender.send(two, name(), KeptFrame(frame(0, 500_000)))
    assert reader.next("kept") == frame(0, 500_000)
    assert reader.next("arrived") == one


def test_a_message_that_the_broker_would_not_take_is_a_typed_error_and_ends_nothing(
    narrow_mosquitto: BrokerUnderTest, parties: Parties
):
    connection, listener = parties.client(narrow_mosquitto)
    listener.next("connected")
    connection.publish(Message(REQUESTS, bytes(40_000)))
    error = listener.next("refused")
    assert isinstance(error, TooLarge)
    assert "32768" in str(error)
    with narrow_mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        connection.publish(Message(REQUESTS, bytes(32_600)))
        assert len(watcher.next().payload) == 32_600


def test_a_limit_that_a_broker_does_not_announce_can_be_told(
    mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    where = replace(mosquitto.login(device), packet_nbytes=10_000)
    connection, listener = parties.device(where, device)
    listener.next("connected")
    assert connection.packet_nbytes == 10_000


def test_at_the_outboxs_bound_publishing_fails_and_does_not_wait(
    mosquitto: BrokerUnderTest, parties: Parties
):
    connection, _ = parties.client(mosquitto, outbox=Outbox(max_nbytes=1000))
    with pytest.raises(QueueFull):
        connection.publish(Message(REQUESTS, bytes(2000)))


def test_what_is_said_while_the_broker_is_away_goes_out_when_it_is_back(
    fresh_mosquitto: BrokerUnderTest, parties: Parties
):
    connection, listener = parties.client(fresh_mosquitto)
    listener.next("connected")
    fresh_mosquitto.stop()
    listener.next("disconnected")
    for index in range(50):
        connection.publish(Message(REQUESTS, b"%d" % index, retain=index == 49))
    fresh_mosquitto.start()
    assert listener.next("connected")[1]
    connection.close(LIMIT_S)
    with fresh_mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(REQUESTS)
        assert watcher.next().payload == b"49"


def test_a_party_that_says_everything_anew_repeats_nothing(
    fresh_mosquitto: BrokerUnderTest, parties: Parties
):
    device = fresh_name()
    where = fresh_mosquitto.login(device)
    connection, listener = parties.device(where, device, ConnectionPolicy(repeats=False))
    listener.next("connected")
    fresh_mosquitto.stop()
    listener.next("disconnected")
    topic = TOPICS.device(device, "state")
    connection.publish(Message(topic, b"of the old connection", retain=True))
    fresh_mosquitto.start()
    listener.next("connected")
    connection.publish(Message(topic, b"of the new one", retain=True))
    connection.close(LIMIT_S)
    with fresh_mosquitto.connect("watcher", "watcher") as watcher:
        watcher.subscribe(topic)
        assert watcher.next().payload == b"of the new one"


def test_frames_arrive_whole_though_the_connection_is_cut_again_and_again(
    mosquitto: BrokerUnderTest, parties: Parties
):
    one, two = (fresh_name() for _ in range(2))
    sender, told, connection = parties.with_frames(mosquitto.login(one), one)
    _, reader, _ = parties.with_frames(mosquitto.login(two), two)
    told.next("connected")
    reader.next("connected")
    wanted = {}
    for item in range(12):
        wanted[frame(item, 100 + item % 2 * 600_000)] = item
        sender.send(two, name(item), KeptFrame(frame(item, 100 + item % 2 * 600_000)))
        if item % 4 == 3:
            cut(connection)
            told.next("connected")
    got: set[bytes] = set()
    while len(got) < len(wanted):
        got.add(reader.next("kept"))
    assert got == set(wanted)


def test_a_frame_for_a_party_that_has_yet_to_come_arrives_once_it_is_there(
    mosquitto: BrokerUnderTest, parties: Parties
):
    """As after the death of a broker that has forgotten everybody."""
    one, two = (fresh_name() for _ in range(2))
    sender, told, _ = parties.with_frames(mosquitto.login(one), one)
    told.next("connected")
    sender.send(two, name(0), KeptFrame(frame(0, 100)))
    end = time.monotonic() + LIMIT_S
    while sender.fill_at() is None:  # until the broker has said that nobody listens
        assert time.monotonic() < end
        threading.Event().wait(0.01)
    _, reader, _ = parties.with_frames(mosquitto.login(two), two)
    reader.next("connected")
    assert reader.next("kept") == frame(0, 100)


def test_what_is_said_together_leaves_at_once_and_frames_of_it_in_one_message(
    mosquitto: BrokerUnderTest, parties: Parties
):
    one, other = (fresh_name("device") for _ in range(2))
    sender, told, connection = parties.with_frames(mosquitto.login(one), one)
    reader, heard, _ = parties.with_frames(mosquitto.login(other), other)
    told.next("connected")
    heard.next("connected")
    payloads = []
    received = reader.received
    reader.received = lambda topic, payload: (  # type: ignore[method-assign]  # to count messages
        payloads.append(bytes(payload)),
        received(topic, payload),
    )
    with connection.said_together():
        for item in range(5):
            sender.send(other, name(item), KeptFrame(frame(item)))
    assert [heard.next("kept") for _ in range(5)] == [frame(item) for item in range(5)]
    assert len(payloads) == 1
