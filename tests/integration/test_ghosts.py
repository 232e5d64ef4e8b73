"""Devices that came and left, under one name or under twenty, leave nothing at a real broker."""

from __future__ import annotations

import queue
import time
from dataclasses import replace

from orchestrator.machine.records.options import OrchestratorOptions
from tests.integration.test_orchestrator_end_to_end import assert_whole, rows
from tests.support import orchestrated
from tests.support.broker import BrokerUnderTest
from tests.support.models import mlp
from tests.support.mqtt_client import MqttClient
from tests.support.orchestrated import LIMIT_S, QUICK, TOPICS, Person, System
from wire.broker_url import BrokerUrl
from wire.messages.requests import RunOptions
from wire.messages.residency import Residency
from wire.messages.state import Capabilities, DeviceState
from wire.messages.telemetry import Telemetry
from wire.record import encode

system = orchestrated.system
FORGET_S = 1.5
OPTIONS: OrchestratorOptions = replace(QUICK, forget_s=FORGET_S)
TIMES = 20


def visit(url: BrokerUrl, number: int, *, farewell: bool) -> None:
    """Be born, say what is retained of a device, and go."""
    name, connection, boot = str(url.user), f"c{number}", f"b{number}"
    topic = TOPICS.device(name, "state")
    gone = encode(DeviceState("offline", connection, boot, "0", 1))
    with MqttClient(url, will=(topic, gone, True)) as device:
        born = DeviceState("online", connection, boot, "0", 1)
        device.publish(topic, encode(born), retain=True)
        telemetry = Telemetry(connection, 1.0, 0, 0, 0, 0, 0)
        device.publish(TOPICS.device(name, "telemetry"), encode(telemetry), retain=True)
        residency = Residency(connection, 0, 0, (), 0, 0)
        device.publish(TOPICS.device(name, "residency"), encode(residency), retain=True)
        if farewell:
            device.publish(topic, gone, retain=True)
        else:
            device.vanish()


def retained_of(broker: BrokerUnderTest, names: set[str]) -> set[str]:
    """Topics that the broker still has something of these devices in."""
    with broker.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.device("+", "+"), TOPICS.orchestrator_state)
        topics: set[str] = set()
        try:
            while True:
                message = watcher.next(0.3)
                if message.payload and message.topic.split("/")[-2] in names:
                    topics.add(message.topic)
        except queue.Empty:
            return topics


def test_what_a_broker_retained_of_the_dead_is_not_believed(system: System):
    """They are online, as far as their retained words go, and nobody will ever say otherwise."""
    urls = system.broker.devices(6)
    able = Capabilities(1 << 30, 1 << 30, 1 << 30, 8, "x86_64", "1.20", 20)
    for number, url in enumerate(urls):
        topic = TOPICS.device(str(url.user), "state")
        state = DeviceState("online", f"c{number}", f"b{number}", "0", 1, able)
        with MqttClient(url) as device:
            device.publish(topic, encode(state), retain=True)
    model = mlp(6)
    manifest = system.add(model, "mlp", segments=4, max_shape={"batch": 4})
    orchestrator = system.start()
    inputs, alive = rows(6), {system.agent().name, system.agent().name}
    with Person(system.broker) as person:
        run = person.submit("mlp", 6, RunOptions(exact=True, partitions=2))
        for item, x in enumerate(inputs):
            person.send_stored(manifest, run, item, x=x)
        person.finish(run, 6)
        assert_whole(person, model, inputs)
        assert not person.failures
    served = {
        name for plan in orchestrator._machine.state.plans.values() for name in plan.devices()
    }
    assert served <= alive


def assert_no_ghosts(system: System, names: set[str]) -> None:
    deadline = time.monotonic() + LIMIT_S
    assert system.orchestrator is not None
    state = system.orchestrator._machine.state
    while left := retained_of(system.broker, names):
        assert time.monotonic() < deadline, f"the broker still has {sorted(left)}"
    assert not names & {device.name for device in list(state.devices)}
    assert system.orchestrator._journal.absences() == ()


def test_twenty_names_that_came_once_leave_no_ghosts(system: System):
    urls = system.broker.devices(TIMES)
    system.start(options=OPTIONS)
    for number, url in enumerate(urls):
        visit(url, number, farewell=number % 2 == 0)
    assert_no_ghosts(system, {str(url.user) for url in urls})


def test_one_name_that_came_twenty_times_leaves_no_ghost(system: System):
    (url,) = system.broker.devices(1)
    system.start(options=OPTIONS)
    for number in range(TIMES):
        visit(url, number, farewell=number % 2 == 0)
    assert_no_ghosts(system, {str(url.user)})


def test_ghosts_that_were_there_before_the_orchestrator_go_too(system: System):
    urls = system.broker.devices(TIMES)
    for number, url in enumerate(urls):
        visit(url, number, farewell=number % 2 == 0)
    names = {str(url.user) for url in urls}
    assert len(retained_of(system.broker, names)) == 3 * TIMES
    system.start(options=OPTIONS)
    assert_no_ghosts(system, names)
