"""Mosquitto as we start it: it lets the right people in, keeps what it should, and ends."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from broker_config.access import access_list
from broker_config.configuration import BrokerLimits, Files, Listener, configuration
from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker
from broker_config.port import free_port
from broker_config.url import BrokerUrl
from bus.broker_probe import knock
from tests.support.broker import BrokerUnderTest, fresh_name
from tests.support.mqtt_client import MqttClient
from wire.errors import BrokerUnreachable, InvalidName, PortTaken, Refused
from wire.ids import mint
from wire.topics import Topics
from wire.users import FORMAT, User, Users, write_users

TOPICS = Topics()
ENDED_LIMIT_S = 10.0


def test_a_known_user_is_let_in(mosquitto: BrokerUnderTest):
    knock(mosquitto.orchestrator)


@pytest.mark.parametrize("login", [("client", "wrong"), ("nobody", "x"), (None, None)])
def test_anyone_else_is_refused(mosquitto: BrokerUnderTest, login: tuple[str, str]):
    with pytest.raises(Refused):
        knock(BrokerUrl(mosquitto.host, mosquitto.port, False, *login))


def test_small_messages_do_not_wait_for_nagle(mosquitto: BrokerUnderTest):
    text = Files(mosquitto.home / "broker").configuration.read_text()
    assert "\nset_tcp_nodelay true\n" in text


def test_the_packet_limit_is_announced(mosquitto: BrokerUnderTest):
    client = MqttClient(mosquitto.client)
    _, _, properties = client.connect()
    client.close()
    assert properties is not None
    assert properties.MaximumPacketSize == mosquitto.broker.packet_limit_nbytes


def test_retained_state_meets_a_new_subscriber(mosquitto: BrokerUnderTest):
    name = fresh_name()
    topic = TOPICS.device(name, "state")
    with mosquitto.connect(name) as device, MqttClient(mosquitto.watcher) as watcher:
        device.publish(topic, b"online", retain=True)
        watcher.subscribe(topic)
        message = watcher.next()
        assert (message.payload, message.retain) == (b"online", True)


def test_a_device_that_vanishes_leaves_its_will(mosquitto: BrokerUnderTest):
    name = fresh_name()
    topic = TOPICS.device(name, "state")
    device = MqttClient(mosquitto.login(name), will=(topic, b"offline", True))
    device.connect()
    with MqttClient(mosquitto.watcher) as watcher:
        watcher.subscribe(topic)
        device.vanish()
        assert watcher.next().payload == b"offline"


def test_properties_of_a_frame_arrive(mosquitto: BrokerUnderTest):
    sender, reader = mosquitto.devices(2)
    with MqttClient(sender) as one, MqttClient(reader) as two:
        two.subscribe(TOPICS.inbox(str(reader.user)))
        topic = TOPICS.data(str(reader.user), str(sender.user))
        one.publish(topic, b"x" * 300_000, UserProperty=[("run", "r1")], ContentType="a/b")
        message = two.next()
        assert len(message.payload) == 300_000
        assert message.properties.UserProperty == [("run", "r1")]
        assert message.properties.ContentType == "a/b"


def test_an_offline_session_gets_more_than_a_thousand_messages(mosquitto: BrokerUnderTest):
    sender, reader = mosquitto.devices(2)
    inbox = TOPICS.inbox(str(reader.user))
    first = MqttClient(reader, client_id="sleeper", session_expiry_s=300)
    first.connect()
    first.subscribe(inbox)
    first.close()
    with MqttClient(sender) as one:
        for number in range(1500):
            one.publish(TOPICS.data(str(reader.user), str(sender.user)), str(number).encode())
    again = MqttClient(reader, client_id="sleeper", clean=False, session_expiry_s=300)
    _, resumed, _ = again.connect()
    assert resumed
    assert [int(again.next().payload) for _ in range(1500)] == list(range(1500))
    again.close()


def test_a_user_added_is_let_in_and_nobody_loses_the_connection(fresh_mosquitto: BrokerUnderTest):
    with MqttClient(fresh_mosquitto.client) as client:
        client.subscribe("crowdpipe/#")
        name = fresh_name()
        with fresh_mosquitto.connect(name) as device:
            device.publish(TOPICS.device(name, "events"), b"here")
            assert client.next().payload == b"here"
        assert client.connected


def test_with_ten_thousand_devices_it_starts_and_learns_of_another_in_time(tmp_path: Path):
    """With rights for each of them it took 20 s, and twice as many would have taken four times."""
    credentials = Credentials(tmp_path)
    users = tuple(User(f"phone-{number}", "device", mint(32)) for number in range(10_000))
    credentials.path.write_bytes(write_users(Users(FORMAT, users)))
    credentials.path.chmod(0o600)
    with MosquittoBroker(tmp_path, credentials) as broker:
        knock(broker.url_for("phone-9999"))
        credentials.add("late", "device")
        broker.reload()
        knock(broker.url_for("late"))


def test_a_user_removed_is_disconnected_and_stays_out(fresh_mosquitto: BrokerUnderTest):
    url = fresh_mosquitto.login("phone-x")
    with MqttClient(url) as device:
        fresh_mosquitto.credentials.remove("phone-x")
        fresh_mosquitto.broker.reload()
        device.ended()
    with pytest.raises(Refused):
        knock(url)


def test_what_is_retained_survives_an_orderly_restart_on_the_same_port(
    fresh_mosquitto: BrokerUnderTest,
):
    port = fresh_mosquitto.port
    with MqttClient(fresh_mosquitto.orchestrator) as orchestrator:
        orchestrator.publish(TOPICS.orchestrator_state, b"here", retain=True)
    fresh_mosquitto.stop()
    fresh_mosquitto.start()
    assert fresh_mosquitto.port == port
    with MqttClient(fresh_mosquitto.watcher) as watcher:
        watcher.subscribe("crowdpipe/#")
        assert watcher.next().payload == b"here"


def test_a_broker_that_was_killed_can_be_started_again(fresh_mosquitto: BrokerUnderTest):
    os.kill(fresh_mosquitto.broker.pid, signal.SIGKILL)
    child = fresh_mosquitto.broker._child
    assert child is not None
    assert child.wait(ENDED_LIMIT_S)
    with pytest.raises(BrokerUnreachable, match="not running"):
        fresh_mosquitto.broker.reload()
    fresh_mosquitto.start()
    knock(fresh_mosquitto.client)


def test_a_port_of_another_broker_is_taken(mosquitto: BrokerUnderTest, tmp_path: Path):
    late = MosquittoBroker(tmp_path, Credentials(tmp_path), port=mosquitto.port)
    with pytest.raises(PortTaken, match=str(mosquitto.port)):
        late.start()


def test_a_port_of_something_silent_is_taken(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(PortTaken):
            MosquittoBroker(tmp_path, Credentials(tmp_path), port=port).start()


def test_a_program_that_is_no_mosquitto_is_reported_with_what_it_said(tmp_path: Path):
    broker = MosquittoBroker(tmp_path, Credentials(tmp_path), program=Path("/bin/false"))
    with pytest.raises(BrokerUnreachable, match="ended"):
        broker.start()
    missing = MosquittoBroker(tmp_path, Credentials(tmp_path), program=Path("/no/mosquitto"))
    with pytest.raises(BrokerUnreachable, match="No such file"):
        missing.start()


def test_a_folder_with_spaces_is_fine_and_one_with_a_line_break_is_refused(tmp_path: Path):
    home = tmp_path / "my home"
    with MosquittoBroker(home, Credentials(home)):
        pass
    with pytest.raises(InvalidName):
        Files(tmp_path / "a\nallow_anonymous true")


def test_asking_for_an_unknown_users_address_says_so(mosquitto: BrokerUnderTest):
    with pytest.raises(InvalidName, match="nobody"):
        mosquitto.url_for("nobody")


def test_on_the_common_door_a_device_can_claim_anothers_client_id(mosquitto: BrokerUnderTest):
    """Why there is a second door. If this fails, Mosquitto has changed, for the better."""
    victim, thief = mosquitto.devices(2)
    with MqttClient(victim, client_id="mine") as one, MqttClient(thief, client_id="mine"):
        one.ended()


def test_on_the_devices_door_nobody_can(tmp_path: Path):
    credentials = Credentials(tmp_path)
    names = [credentials.add(name, "device").name for name in ("victim", "thief")]
    with MosquittoBroker(tmp_path, credentials, device_port=free_port("127.0.0.1")) as broker:
        victim, thief = map(broker.url_for, names)
        assert victim.port != broker.port
        with MqttClient(victim, client_id="mine") as one, MqttClient(thief, client_id="mine"):
            with pytest.raises(queue.Empty):
                one.ended(limit_s=0.3)
            assert one.publish(TOPICS.device("victim", "events"), b"x") in (0, 16)


PARENT = """
import sys, pathlib, threading
from broker_config.credentials import Credentials
from broker_config.mosquitto import MosquittoBroker
home = pathlib.Path(sys.argv[1])
broker = MosquittoBroker(home, Credentials(home))
starter = threading.Thread(target=broker.start)  # the thread's end must not end the broker
starter.start(); starter.join()
print(broker.pid, broker.port, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_broker_ends_with_the_program_that_started_it(tmp_path: Path, how: signal.Signals):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid, port = map(int, parent.stdout.readline().split())
    broker = psutil.Process(pid)
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        assert broker.name() == "mosquitto"
    parent.send_signal(how)
    parent.communicate(timeout=ENDED_LIMIT_S)
    broker.wait(ENDED_LIMIT_S)
    assert not psutil.pid_exists(pid)


def test_stopping_twice_does_nothing(fresh_mosquitto: BrokerUnderTest):
    fresh_mosquitto.stop()
    fresh_mosquitto.stop()
    with pytest.raises(BrokerUnreachable):
        knock(fresh_mosquitto.client)


def test_a_packet_over_the_limit_is_not_taken(tmp_path: Path):
    credentials = Credentials(tmp_path)
    credentials.add("ann", "client")
    limits = BrokerLimits(packet_nbytes=10_000)
    requests = TOPICS.client("clients/ann/s", "requests")
    with (
        MosquittoBroker(tmp_path, credentials, limits=limits) as broker,
        MqttClient(broker.url_for("ann")) as client,
    ):
        assert client.publish(requests, b"x" * 5_000) in (0, 16)
        with pytest.raises(queue.Empty):
            client.publish(requests, b"x" * 20_000, limit_s=1.0)
        client.ended()


def test_the_configuration_is_a_pure_text(tmp_path: Path):
    files = Files(tmp_path)
    listener = Listener("127.0.0.1", 1883)
    assert configuration(listener, files, "me") == configuration(listener, files, "me")
    assert "use_username_as_clientid" not in configuration(listener, files, "me")
    assert access_list([]).startswith("#")


def _version(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns


def test_files_that_are_as_they_would_be_written_are_left_alone_at_a_start(tmp_path: Path):
    """A full disk takes not even the same again."""
    credentials = Credentials(tmp_path)
    user = credentials.add("orchestrator", "orchestrator")
    files = Files(tmp_path / "broker")
    written = (files.configuration, files.access_list, files.passwords)
    with MosquittoBroker(tmp_path, credentials) as broker:
        port, before = broker.port, [_version(path) for path in written]
    with MosquittoBroker(tmp_path, credentials, port=port) as broker:
        assert [_version(path) for path in written] == before
        added = credentials.add("ann", "client")
        broker.reload()
        knock(BrokerUrl(broker.host, port).login(added.name, added.secret))
        knock(BrokerUrl(broker.host, port).login(user.name, user.secret))
