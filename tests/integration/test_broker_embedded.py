"""The embedded broker: what it does, and what it does not, so that nobody relies on it."""

from __future__ import annotations

import os
import queue
import signal
import socket
import stat
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_config.credentials import Credentials
from broker_config.embedded import EmbeddedBroker
from bus.broker_probe import knock
from tests.support.broker import fresh_name
from tests.support.mqtt_client import MqttClient
from wire.errors import BrokerUnreachable, PortTaken
from wire.topics import Topics

TOPICS = Topics()
NOTHING_S = 0.5


class EmbeddedUnderTest:
    def __init__(self, home: Path) -> None:
        self.credentials = Credentials(home)
        for name in ("one", "two"):
            self.credentials.add(name, "device")
        self.credentials.add("eve", "watcher")
        self.broker = EmbeddedBroker(home, self.credentials)

    def client(self, name: str, **options: object) -> MqttClient:
        return MqttClient(self.broker.url_for(name), **options)  # type: ignore[arg-type]  # passed on


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedUnderTest]:
    under_test = EmbeddedUnderTest(tmp_path_factory.mktemp("embedded"))
    with under_test.broker:
        yield under_test


def test_it_listens_where_it_is_told_and_nowhere_else(embedded: EmbeddedUnderTest):
    assert embedded.broker.url.host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", embedded.broker.port), timeout=2)


def test_nobody_gets_in_without_a_login(embedded: EmbeddedUnderTest):
    knock(embedded.broker.url_for("one"))
    for url in (embedded.broker.url, embedded.broker.url.login("one", "wrong")):
        with pytest.raises(BrokerUnreachable):
            knock(url)


def test_the_file_with_its_secrets_is_private(embedded: EmbeddedUnderTest):
    path = embedded.credentials.path.parent / "broker" / "embedded.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_large_frames_arrive_with_their_properties(embedded: EmbeddedUnderTest):
    with embedded.client("one") as one, embedded.client("two") as two:
        two.subscribe(TOPICS.inbox("two"))
        properties = {"UserProperty": [("run", "r")], "ContentType": "a/b"}
        one.publish(TOPICS.data("two", "one"), b"x" * 2_000_000, **properties)
        message = two.next()
        assert len(message.payload) == 2_000_000
        assert message.properties.UserProperty == [("run", "r")]
        assert message.properties.ContentType == "a/b"


def test_retained_state_is_kept_and_can_be_cleared(embedded: EmbeddedUnderTest):
    topic = TOPICS.device(fresh_name(), "state")
    with embedded.client("one") as one:
        one.publish(topic, b"online", retain=True)
        with embedded.client("eve") as eve:
            eve.subscribe("crowdpipe/#")
            message = eve.next()
            assert (message.topic, message.payload, message.retain) == (topic, b"online", True)
        one.publish(topic, b"", retain=True)
        with embedded.client("eve") as eve:
            eve.subscribe(topic)
            with pytest.raises(queue.Empty):
                eve.next(NOTHING_S)


def test_a_client_that_vanishes_leaves_its_will(embedded: EmbeddedUnderTest):
    topic = TOPICS.device(fresh_name(), "state")
    one = embedded.client("one", will=(topic, b"offline", True))
    one.connect()
    with embedded.client("eve") as eve:
        eve.subscribe(topic)
        one.vanish()
        assert eve.next().payload == b"offline"


def test_a_client_that_says_goodbye_leaves_none(embedded: EmbeddedUnderTest):
    topic = TOPICS.device(fresh_name(), "state")
    with embedded.client("eve") as eve:
        eve.subscribe(topic)
        with embedded.client("one", will=(topic, b"offline", False)):
            pass
        with pytest.raises(queue.Empty):
            eve.next(NOTHING_S)


def test_a_message_that_expired_is_not_delivered(embedded: EmbeddedUnderTest):
    topic = TOPICS.run(fresh_name("run"))
    with embedded.client("one") as one, embedded.client("eve") as eve:
        one.publish(topic, b"old", retain=True, MessageExpiryInterval=1)
        deadline = time.monotonic() + 10
        got = True
        while got and time.monotonic() < deadline:
            eve.subscribe(topic)
            try:
                eve.next(NOTHING_S)
            except queue.Empty:
                got = False
        assert not got


def test_small_messages_do_not_wait_for_nagle(embedded: EmbeddedUnderTest):
    topic = TOPICS.data("two", "one")
    with embedded.client("one") as one, embedded.client("two") as two:
        two.subscribe(TOPICS.inbox("two"))
        trips = []
        for _ in range(20):
            begun = time.monotonic()
            one.publish(topic, b"x")
            two.next()
            trips.append(time.monotonic() - begun)
        assert statistics.median(trips) < 0.03


def test_a_payload_over_the_limit_closes_the_senders_connection(embedded: EmbeddedUnderTest):
    assert embedded.broker.packet_limit_nbytes is not None
    too_large = bytes(embedded.broker.packet_limit_nbytes + 1)
    one = embedded.client("one")
    one.connect()
    with pytest.raises(queue.Empty):
        one.publish(TOPICS.data("two", "one"), too_large, limit_s=1.0)
    one.ended()
    one.close()


def test_it_has_no_access_list(embedded: EmbeddedUnderTest):
    """If this fails, the embedded broker has learnt: say so in `describe`."""
    with embedded.client("eve") as eve:
        assert eve.publish(TOPICS.device("one", "state"), b"forged") == 0


def test_it_keeps_nothing_for_a_client_that_is_away(embedded: EmbeddedUnderTest):
    """If this fails, the embedded broker has learnt: say so in its module."""
    first = embedded.client("two", client_id="sleeper", session_expiry_s=300)
    first.connect()
    first.subscribe(TOPICS.inbox("two"))
    first.vanish()
    with embedded.client("one") as one:
        one.publish(TOPICS.data("two", "one"), b"lost")
    again = embedded.client("two", client_id="sleeper", clean=False, session_expiry_s=300)
    with again, pytest.raises(queue.Empty):
        again.next(NOTHING_S)


def test_reloading_without_new_users_disturbs_nobody(embedded: EmbeddedUnderTest):
    with embedded.client("one") as one:
        pid = embedded.broker.pid
        embedded.broker.reload()
        assert embedded.broker.pid == pid
        assert one.publish(TOPICS.device("one", "events"), b"here") in (0, 16)
        assert one.connected


def test_reloading_with_a_new_user_restarts_it_on_the_same_port(tmp_path: Path):
    under_test = EmbeddedUnderTest(tmp_path)
    with under_test.broker as broker:
        port, pid = broker.port, broker.pid
        with under_test.client("one"):
            under_test.credentials.add("three", "device")
            broker.reload()
        assert (broker.port, broker.pid != pid) == (port, True)
        knock(broker.url_for("three"))
        knock(broker.url_for("one"))


def test_a_taken_port_is_a_typed_error(embedded: EmbeddedUnderTest, tmp_path: Path):
    late = EmbeddedBroker(tmp_path, Credentials(tmp_path), port=embedded.broker.port)
    with pytest.raises(PortTaken, match=str(embedded.broker.port)):
        late.start()


def test_it_says_what_it_is_and_what_it_cannot(embedded: EmbeddedUnderTest):
    said = embedded.broker.describe()
    assert "iotcore" in said
    assert "no access list" in said
    assert str(embedded.broker.port) in said


def test_one_that_died_is_noticed(tmp_path: Path):
    under_test = EmbeddedUnderTest(tmp_path)
    with under_test.broker as broker:
        child = broker._child
        assert child is not None
        os.kill(broker.pid, signal.SIGKILL)
        assert child.wait(10)
        assert not broker.running
        with pytest.raises(BrokerUnreachable):
            broker.reload()
