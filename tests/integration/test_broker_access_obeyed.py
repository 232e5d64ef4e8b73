"""Mosquitto obeys the access list: each row of the table, by every role."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.broker import BrokerUnderTest, fresh_name
from tests.support.mqtt_client import DENIED, MqttClient
from wire.ids import mint
from wire.topics import TABLE, Topics

TOPICS = Topics()
ROWS = [rule.name for rule in TABLE]
PEOPLE = ["owner", "other_device", "orchestrator", "owning_client", "other_client", "watcher"]

# Said again here by hand, on purpose: an error in the generator must not excuse itself.
MAY_WRITE = {
    "device_state": {"owner", "orchestrator"},
    "telemetry": {"owner", "orchestrator"},
    "assignment": {"orchestrator"},
    "residency": {"owner", "orchestrator"},
    "events": {"owner"},
    "commands": {"orchestrator"},
    "requests": {"owning_client"},
    "responses": {"orchestrator"},
    "model": {"orchestrator"},
    "run": {"orchestrator"},
    "orchestrator_state": {"orchestrator"},
}
WATCHING = {"owning_client", "other_client", "watcher"}
MAY_READ = {
    "device_state": WATCHING | {"owner", "orchestrator"},
    "telemetry": WATCHING | {"orchestrator"},
    "assignment": WATCHING | {"owner", "orchestrator"},
    "residency": WATCHING | {"orchestrator"},
    "events": WATCHING | {"orchestrator"},
    "commands": WATCHING | {"owner", "orchestrator"},
    "requests": WATCHING | {"orchestrator"},
    "responses": WATCHING | {"orchestrator"},
    "model": WATCHING | {"orchestrator"},
    "run": WATCHING | {"orchestrator"},
    "orchestrator_state": WATCHING | {"owner", "other_device", "orchestrator"},
}


class Crowd:
    """One connected client per person; each listens to everything it can name."""

    def __init__(self, mosquitto: BrokerUnderTest, stack: ExitStack) -> None:
        self.device, self.user = fresh_name("phone"), fresh_name("ann")
        self.names = {
            "owner": self.device,
            "other_device": fresh_name("phone"),
            "orchestrator": "orchestrator",
            "owning_client": self.user,
            "other_client": fresh_name("bob"),
            "watcher": "watcher",
        }
        for person, name in self.names.items():
            role = "device" if "device" in person or person == "owner" else "client"
            if name not in ("orchestrator", "watcher"):
                mosquitto.credentials.add(name, role)
        mosquitto.broker.reload()
        self.clients = {
            person: stack.enter_context(MqttClient(mosquitto.url_for(name)))
            for person, name in self.names.items()
        }
        for client in self.clients.values():
            client.subscribe("crowdpipe/#", "crowdpipe-data/#")

    def topic(self, row: str) -> str:
        pattern = next(rule.pattern for rule in TABLE if rule.name == row)
        filled = pattern.format(d=self.device, u=self.user, s="s1", m="m1", r="r1")
        return f"{TOPICS.control_root}/{filled}"

    def who_hears(self, writer: str, topic: str) -> set[str]:
        """Who was given a message that `writer` published; a later message that all may read
        proves that it is not still on its way."""
        payload, end = mint().encode(), mint().encode()
        assert self.clients[writer].publish(topic, payload) in (0, 16)
        assert self.clients["orchestrator"].publish(TOPICS.orchestrator_state, end) == 0
        return {person for person in PEOPLE if payload in self._heard_until(person, end)}

    def _heard_until(self, person: str, end: bytes) -> set[bytes]:
        heard: set[bytes] = set()
        while end not in heard:
            heard.add(self.clients[person].next().payload)
        return heard


@pytest.fixture(scope="module")
def crowd(mosquitto: BrokerUnderTest) -> Iterator[Crowd]:
    with ExitStack() as stack:
        yield Crowd(mosquitto, stack)


@pytest.mark.parametrize("row", ROWS)
def test_only_those_who_may_write_a_row_can(crowd: Crowd, row: str):
    codes = {who: crowd.clients[who].publish(crowd.topic(row), b"{}") for who in PEOPLE}
    allowed = {who for who, code in codes.items() if code != DENIED}
    assert allowed == MAY_WRITE[row], codes


@pytest.mark.parametrize("row", ROWS)
def test_only_those_who_may_read_a_row_hear_it(crowd: Crowd, row: str):
    writer = sorted(MAY_WRITE[row])[0]
    assert crowd.who_hears(writer, crowd.topic(row)) == MAY_READ[row]


DATA_PATHS = {
    "phone to phone": ("{other}", "{owner}", "owner", "other_device"),
    "phone to orchestrator": ("orchestrator", "{owner}", "owner", "orchestrator"),
    "orchestrator to phone": ("{owner}", "orchestrator", "orchestrator", "owner"),
    "client to orchestrator": (
        "orchestrator",
        "clients/{user}/s1",
        "owning_client",
        "orchestrator",
    ),
    "orchestrator to client": (
        "clients/{user}/s1",
        "orchestrator",
        "orchestrator",
        "owning_client",
    ),
}


@pytest.mark.parametrize("path", DATA_PATHS)
def test_a_frame_is_written_by_its_sender_and_heard_by_its_reader_alone(crowd: Crowd, path: str):
    reader, writer, sender, hearer = DATA_PATHS[path]
    names = {"owner": crowd.device, "other": crowd.names["other_device"], "user": crowd.user}
    topic = TOPICS.data(reader.format(**names), writer.format(**names))
    forgers = [person for person in PEOPLE if person != sender]
    assert {crowd.clients[person].publish(topic, b"x") for person in forgers} == {DENIED}
    assert crowd.who_hears(sender, topic) == {hearer}


def test_a_phone_cannot_send_to_a_client(crowd: Crowd):
    topic = TOPICS.data(f"clients/{crowd.user}/s1", crowd.device)
    assert crowd.clients["owner"].publish(topic, b"x") == DENIED


def test_a_client_cannot_send_to_a_phone(crowd: Crowd):
    topic = TOPICS.data(crowd.device, f"clients/{crowd.user}/s1")
    assert crowd.clients["owning_client"].publish(topic, b"x") == DENIED


@pytest.mark.parametrize("person", ["orchestrator", "owning_client", "watcher"])
def test_who_is_no_device_has_no_devices_rights_in_its_own_name(crowd: Crowd, person: str):
    """What devices may is written once for all names: it must not be lent to other roles."""
    name = crowd.names[person]
    rows = [rule.name for rule in TABLE if rule.writer == "device"]
    topics = [TOPICS.device(name, row.removeprefix("device_")) for row in rows]
    if person != "orchestrator":
        topics.append(TOPICS.data("orchestrator", name))
        assert person not in crowd.who_hears("owner", TOPICS.data(name, crowd.device))
    codes = {topic: crowd.clients[person].publish(topic, b"{}") for topic in topics}
    assert set(codes.values()) == {DENIED}, codes


def test_nobody_may_write_outside_the_table(crowd: Crowd):
    for person in PEOPLE:
        assert crowd.clients[person].publish("elsewhere/x", b"x") == DENIED
        assert crowd.clients[person].publish("crowdpipe/v1/new", b"x") == DENIED


def test_a_will_on_another_devices_topic_is_not_published(mosquitto: BrokerUnderTest):
    liar, victim = mosquitto.devices(2)
    topic = TOPICS.device(str(victim.user), "state")
    client = MqttClient(liar, will=(topic, b"offline", False))
    with MqttClient(mosquitto.watcher) as watcher:
        watcher.subscribe("crowdpipe/#")
        code, _, _ = client.connect()
        if code == 0:
            client.vanish()
        end = mint().encode()
        with MqttClient(mosquitto.orchestrator) as orchestrator:
            orchestrator.publish(TOPICS.orchestrator_state, end)
        while (message := watcher.next()).payload != end:
            assert message.topic != topic or message.retain
