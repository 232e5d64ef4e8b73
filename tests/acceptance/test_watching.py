"""Any MQTT client that may read `crowdpipe/#` can follow what happens, in readable JSON."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from crowdpipe import Session
from tests.acceptance.served import Served, served
from tests.support.mqtt_client import MqttClient
from wire.topics import Topics

TOPICS = Topics()
LEAVES = ("state", "telemetry", "assignment", "residency", "events")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("watched"), devices=3) as running:
        running.add("tiny")
        yield running


def run_some(fleet: Served, count: int = 5) -> None:
    feeds = [{"x": np.full((1, 24), number, np.float32)} for number in range(count)]
    # As many partitions as devices: a model as small as this one would be faster on fewer.
    with Session("tiny", fleet.url("local"), partitions=3) as session:
        assert len(list(session.run_many(feeds))) == count


def gather(client: MqttClient, wanted: set[str], limit_s: float = 30.0) -> dict[str, Any]:
    """Messages by topic until `wanted` are among them; each must be JSON."""
    found: dict[str, Any] = {}
    deadline = time.monotonic() + limit_s
    while not wanted <= set(found):
        assert time.monotonic() < deadline, f"still missing: {wanted - set(found)}"
        message = client.next(limit_s)
        if message.payload:
            found[message.topic] = json.loads(message.payload)
    return found


def test_a_watcher_reads_devices_assignments_residency_telemetry_and_runs(fleet: Served) -> None:
    with MqttClient(fleet.url("watcher")) as client:
        assert client.subscribe("crowdpipe/#") == [1]
        run_some(fleet)
        wanted = {TOPICS.device(f"phone-{number}", leaf) for number in (1, 2, 3) for leaf in LEAVES}
        found = gather(client, wanted | {TOPICS.model("tiny"), TOPICS.orchestrator_state})
        runs = [topic for topic in found if topic.startswith(TOPICS.run(""))]
        assert len(runs) == 1
        while found[runs[0]]["status"] != "done":
            found |= gather(client, {runs[0]})
    assert found[runs[0]]["done"] == 5
    assert found[TOPICS.device("phone-1", "state")]["status"] == "online"
    assert found[TOPICS.device("phone-2", "assignment")]["partitions"]
    assert found[TOPICS.device("phone-3", "residency")]["partitions"]


def test_retained_state_survives_a_new_subscriber(fleet: Served) -> None:
    run_some(fleet)
    with MqttClient(fleet.url("watcher")) as client:
        client.subscribe("crowdpipe/#")
        retained = {TOPICS.device("phone-1", leaf) for leaf in ("state", "assignment", "residency")}
        found = gather(client, retained)
    partition = found[TOPICS.device("phone-1", "residency")]["partitions"][0]
    assert partition["model_name"] == "tiny"
    assert partition["status"] == "resident"


def test_a_watcher_may_read_but_not_write(fleet: Served) -> None:
    with MqttClient(fleet.url("watcher")) as client:
        assert client.publish(TOPICS.device("phone-1", "commands"), b"{}") == 135


def test_an_agent_that_is_killed_turns_offline_by_its_last_will(fleet: Served) -> None:
    with MqttClient(fleet.url("watcher")) as client:
        client.subscribe(TOPICS.device("phone-3", "state"))
        born = json.loads(client.next().payload)
        assert born["status"] == "online"
        os.kill(fleet.agents.pids["phone-3"], signal.SIGKILL)
        died = json.loads(client.next().payload)
    assert died["status"] == "offline"
    assert died["connection"] == born["connection"]
