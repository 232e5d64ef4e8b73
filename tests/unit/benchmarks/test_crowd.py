"""A crowd around the orchestrator's machine, and its devices as packets for a real broker."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.crowd import packets
from benchmarks.crowd.connections import Devices
from benchmarks.crowd.crowd import BEATS, COMINGS, PARTITIONS, Crowd, TooSlow
from benchmarks.crowd.device import name_of
from benchmarks.crowd.meter import Cost, Meter, item_us
from benchmarks.crowd.packets import Incoming, Packet
from tests.support.broker import BrokerUnderTest
from tests.support.mqtt_client import MqttClient
from wire.errors import BrokerUnreachable, OperatorError
from wire.messages.commands import CommandBatch, Ping
from wire.messages.events import EventBatch, Pong
from wire.messages.telemetry import Telemetry
from wire.record import decode, encode
from wire.topics import Topics

ITEMS = 6
DEVICES = 6


def test_every_item_of_a_crowd_takes_the_same_way_through_the_machine():
    crowd = Crowd(DEVICES)
    crowd.start()
    costs = crowd.run(ITEMS)
    assert crowd.serving == PARTITIONS
    counts = {kind: cost.count for kind, cost in costs.items()}
    assert counts["submit"] == counts["run_stored"] == 1
    assert counts["input"] == counts["result"] == counts["outcome_stored"] == ITEMS
    assert counts["telemetry"] == BEATS


def test_devices_that_come_and_go_belong_to_no_item():
    crowd = Crowd(DEVICES)
    crowd.start()
    crowd.run(1)
    costs = crowd.run(ITEMS, comings=True)
    others = min(COMINGS, DEVICES - PARTITIONS)
    assert costs["state"].count == 2 * others
    assert item_us(costs, ITEMS) == pytest.approx(
        item_us({kind: costs[kind] for kind in costs if kind not in ("state", "life")}, ITEMS)
    )


def test_idle_runs_are_there_from_the_start_and_do_nothing():
    crowd = Crowd(DEVICES, runs=20)
    crowd.start()
    assert crowd.run(ITEMS)["result"].count == ITEMS


def test_a_crowd_that_takes_too_long_says_so():
    crowd = Crowd(DEVICES)
    crowd.until = time.monotonic() - 1
    with pytest.raises(TooSlow):
        crowd.start()


def test_an_instruction_that_the_crowd_has_no_answer_to_is_an_error():
    class Unheard:
        """An instruction of a later machine."""

    crowd = Crowd(1)
    crowd._machine.handle = lambda event, now: [Unheard()]  # type: ignore[assignment, list-item] # a made-up machine
    with pytest.raises(OperatorError, match="no answer to Unheard"):
        crowd.start()


def test_a_meter_begins_anew_after_each_look():
    meter = Meter()
    meter.add("result", 3000)
    meter.add("result", 1000)
    assert meter.take() == {"result": Cost(4000, 2)}
    assert meter.take() == {}
    assert Cost(4000, 2).each_us == 2.0


def test_what_the_crowd_says_in_any_case_is_no_items_cost():
    costs = {"result": Cost(4000, 2), "tick": Cost(2000, 9), "telemetry": Cost(9000, 1)}
    assert item_us(costs, 2) == 3.0


# --- packets ----------------------------------------------------------------------------------


@given(
    st.text(min_size=1, max_size=40),
    st.binary(max_size=400),
    st.integers(0, 0xFFFF),
    st.integers(1, 50),
)
def test_packets_are_read_as_they_were_written_however_they_come_in_pieces(
    topic: str, payload: bytes, number: int, piece: int
):
    data = packets.publish(topic, payload, number=number) + packets.puback(7)
    incoming = Incoming()
    found = [
        packet
        for at in range(0, len(data), piece)
        for packet in incoming.feed(data[at : at + piece])
    ]
    assert found == [
        Packet(packets.PUBLISH, topic=topic, payload=payload, number=number),
        Packet(packets.PUBACK),
    ]


def test_refusals_are_read_out_of_the_brokers_answers():
    connack, suback = b"\x20\x03\x00\x87\x00", b"\x90\x05\x00\x01\x00\x01\x87"
    assert [packet.code for packet in Incoming().feed(connack + suback)] == [0x87, 0x87]


# --- a real broker ----------------------------------------------------------------------------


def test_a_device_of_a_crowd_is_born_says_telemetry_and_answers_pings(mosquitto: BrokerUnderTest):
    name, topics = name_of(0), Topics()
    secret = mosquitto.login(name).secret
    assert secret is not None
    with MqttClient(mosquitto.orchestrator) as orchestrator:
        orchestrator.subscribe(topics.device(name, "#"))
        devices = Devices(mosquitto.url, secret)
        devices.connect(1)
        born = {orchestrator.next().topic.rpartition("/")[2] for _ in range(3)}
        assert born == {"state", "telemetry", "residency"}
        devices.say(1, 0.01)
        said: Telemetry = decode(Telemetry, orchestrator.next().payload)
        assert said.battery_percent == 77.0
        ping = CommandBatch(1, (Ping("n1"),))
        orchestrator.publish(topics.device(name, "commands"), encode(ping))
        assert decode(CommandBatch, orchestrator.next().payload) == ping
        devices.rest(0.5)
        answer: EventBatch = decode(EventBatch, orchestrator.next().payload)
        assert isinstance(answer.events[0], Pong)
        assert answer.events[0].nonce == "n1"


def test_devices_that_are_away_have_left_what_they_retain(mosquitto: BrokerUnderTest):
    topics, numbers = Topics(), range(70, 130)
    secret = mosquitto.orchestrator.secret
    assert secret is not None
    Devices(mosquitto.url, secret).retain(numbers.start, numbers.stop)
    wanted = {
        topics.device(name_of(number), leaf)
        for number in numbers
        for leaf in ("state", "telemetry", "residency", "assignment")
    }
    with MqttClient(mosquitto.orchestrator) as orchestrator:
        orchestrator.subscribe(f"{topics.control_root}/devices/#")
        while wanted:
            wanted.discard(orchestrator.next().topic)


def test_a_device_that_the_broker_refuses_is_an_error(mosquitto: BrokerUnderTest):
    with pytest.raises(BrokerUnreachable, match="refused"):
        Devices(mosquitto.url, "wrong").connect(1)
