"""Whoever has the broker's own credentials, at a real Mosquitto: an agent that knows its desk's key
neither fetches nor loads what they order, obeys nothing old, and goes on serving its desk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.shell.orchestrator import Orchestrator
from tests.integration.test_orchestrator_end_to_end import assert_whole, rows
from tests.support import orchestrated
from tests.support.agent_process import AgentProcess
from tests.support.broker import fresh_name
from tests.support.models import mlp
from tests.support.mqtt_client import MqttClient
from tests.support.orchestrated import LIMIT_S, TOPICS, Person, System
from tests.support.waiting import wait_until
from wire.ids import PartitionId, digest_of
from wire.manifest import BlobRef
from wire.messages.assignment import Assignment, PartitionAssignment, SegmentRef
from wire.messages.commands import CommandBatch, Evict
from wire.messages.requests import RunOptions
from wire.messages.state import DeviceState, OrchestratorState
from wire.record import decode, encode
from wire.topics import ORCHESTRATOR

system = orchestrated.system
MODEL, COUNT = mlp(4), 3
BOOT = "blobs cached"  # said at each start
FOREIGN = b"foreign bytes that somebody would like to have run"


class Deployment:
    """A desk with a model, whose agents know its key."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.manifest = system.add(MODEL, "mlp", segments=4, max_shape={"batch": 4})
        self.desk: Orchestrator = system.start()

    @contextlib.contextmanager
    def stolen(self) -> Iterator[MqttClient]:
        """Somebody else has the desk's login, and the desk is away: the broker knows one of them at
        a time. Afterwards it is back."""
        self.desk.stop()
        with self.system.broker.connect(ORCHESTRATOR, ORCHESTRATOR) as thief:
            yield thief
        self.desk = self.system.start()

    def agent(self, name: str | None = None, key: str | None = None) -> AgentProcess:
        flags = ("--memory", "64MiB", "--desk-key", key or self.desk.desk_key)
        return self.system.agent(*flags, name=name)

    def serves(self) -> None:
        """A run, from beginning to end."""
        inputs = rows(COUNT)
        with Person(self.system.broker) as person:
            run = person.submit_until_accepted("mlp", COUNT, RunOptions(exact=True))
            for item, x in enumerate(inputs):
                person.send_stored(self.manifest, run, item, x=x)
            person.finish(run, COUNT)
        assert_whole(person, MODEL, inputs)
        assert not person.failures

    def foreign_assignment(self, generation: int) -> Assignment:
        """Of bytes that the store has, as each of its users may put there."""
        digest = digest_of(FOREIGN)
        self.system.store.blobs.put([FOREIGN], digest)
        graph = BlobRef(digest, len(FOREIGN))
        segment = SegmentRef(0, graph, (), ("x",), ("y",), 64, 1.0)
        part = PartitionId(digest, True, 0, 0)
        listed = PartitionAssignment(part, "foreign", 3, (segment,), 1000, ("y",), 1000)
        return Assignment(generation, 1, f"http://:{self.system.store.port}", (listed,))


@pytest.fixture
def deployment(system: System) -> Deployment:
    return Deployment(system)


def kept(client: MqttClient, topic: str) -> Any:
    """What is retained there, with its properties."""
    client.subscribe(topic)
    return client.next(LIMIT_S)


def test_what_is_forged_is_neither_fetched_nor_loaded_and_the_desk_is_served(
    deployment: Deployment,
):
    agent = deployment.agent()
    deployment.serves()
    topic = TOPICS.device(agent.name, "assignment")
    foreign = encode(deployment.foreign_assignment(999))
    with deployment.stolen() as thief:
        genuine = kept(thief, topic)
        assert [name for name, _ in genuine.properties.UserProperty] == ["ed25519"]
        thief.publish(topic, foreign, retain=True)
        thief.publish(topic, foreign, retain=True, UserProperty=genuine.properties.UserProperty)
        evict = CommandBatch(999, (Evict(tuple(b.digest for b in deployment.manifest.blobs)),), 1)
        thief.publish(TOPICS.device(agent.name, "commands"), encode(evict))
    deployment.serves()
    said = agent.said()
    assert said.count("it is unsigned, not by the desk we know") == 2
    assert said.count("it is forged, not by the desk we know") == 1
    assert not agent.blob(digest_of(FOREIGN)).exists()
    assert "FetchBlob " + digest_of(FOREIGN) not in said


def test_an_agent_that_starts_with_a_forged_assignment_waits_for_its_desk(deployment: Deployment):
    name = fresh_name("agent")
    with deployment.stolen() as thief:
        topic = TOPICS.device(name, "assignment")
        thief.publish(topic, encode(deployment.foreign_assignment(999)), retain=True)
        agent = deployment.agent(name)
        wait_until(lambda: "it is unsigned" in agent.said(), "the agent to hear it")
    deployment.serves()
    assert not agent.blob(digest_of(FOREIGN)).exists()


def test_an_order_of_an_older_generation_that_is_sent_again_is_refused(deployment: Deployment):
    agent = deployment.agent()
    deployment.serves()
    topic = TOPICS.device(agent.name, "assignment")
    with deployment.stolen() as thief:
        old = kept(thief, topic)
    assert decode(Assignment, old.payload).partitions
    deployment.serves()
    agent.end()
    with deployment.stolen() as thief:
        thief.publish(topic, old.payload, retain=True, UserProperty=old.properties.UserProperty)
        again = deployment.agent(agent.name)
        wait_until(lambda: "connected to" in again.said().split(BOOT)[-1], "the agent to be there")
    deployment.serves()
    again.process.terminate()
    again.wait()
    assert "1 stale_assignments" in again.said()
    generation = decode(Assignment, old.payload).generation
    assert (
        f"assignment {generation}.{decode(Assignment, old.payload).revision}: serve"
        not in (again.said().split(BOOT)[-1])
    )


def test_a_desk_with_an_older_journal_rises_above_what_its_agents_obeyed(deployment: Deployment):
    agent = deployment.agent()
    for _ in range(2):
        with deployment.stolen():
            pass
    deployment.serves()
    before = deployment.desk._inbound.generation
    with deployment.stolen() as thief:
        for file in (deployment.system.home / "orchestrator").glob("journal*"):
            file.unlink()
        for cleared in (TOPICS.device(agent.name, "assignment"), TOPICS.orchestrator_state):
            thief.publish(cleared, b"", retain=True)
        agent.end()
        again = deployment.agent(agent.name)
        wait_until(lambda: "connected to" in again.said().split(BOOT)[-1], "the agent to be there")
    deployment.serves()
    assert deployment.desk._inbound.generation > before


def test_an_agent_of_another_desk_says_why_it_obeys_nobody(deployment: Deployment):
    other = "A" * 43 + "="
    agent = deployment.agent(key=other)
    with deployment.system.broker.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.device(agent.name, "state"))
        while True:
            state: DeviceState = decode(DeviceState, watcher.next(LIMIT_S).payload)
            if state.reason:
                break
    assert state.status == "online"
    assert f"crowdpipe device add {agent.name}" in state.reason


@pytest.mark.parametrize("status", ["online", "offline"])
def test_what_the_desk_says_of_itself_is_signed_too(deployment: Deployment, status: str):
    if status == "offline":
        deployment.desk.stop()
    with deployment.system.broker.connect("watcher", "watcher") as watcher:
        message = kept(watcher, TOPICS.orchestrator_state)
    assert decode(OrchestratorState, message.payload).status == status
    assert [name for name, _ in message.properties.UserProperty] == ["ed25519"]
