"""A user's program that sends 10,000 submits at once: others get their results, the orchestrator
stays small, and that user is served again as soon as it stops."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import threading
import time
from collections.abc import Callable

import numpy as np
import psutil
import pytest

import crowdpipe
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.models import WIDTH, mlp
from tests.support.mqtt_client import MqttClient
from tests.support.orchestrated import TOPICS, Person, System
from wire.messages.requests import (
    Accepted,
    CancelRun,
    Rejected,
    Request,
    Response,
    RunOptions,
    Submit,
)
from wire.record import decode, encode
from wire.topics import client_party

FLOOD = 10_000
LIMIT_S = 60.0
SOON_S = 15.0  # after a flood
RUNS = OrchestratorOptions().party_runs
MOST_NBYTES = 32 << 20
FEED = {"x": np.ones((2, WIDTH), np.float32)}


class Flooder:
    """A raw client of one user; publishes without waiting for anything."""

    def __init__(self, system: System) -> None:
        self.url = system.broker.url_for("flooder")
        self.party = client_party("flooder", "raw")
        self.client = MqttClient(self.url)
        self.heard: list[Response] = []

    def __enter__(self) -> Flooder:
        self.client.__enter__()
        self.client.subscribe(TOPICS.client(self.party, "responses"))
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.close()

    def say(self, request: Request) -> None:
        topic = TOPICS.client(self.party, "requests")
        self.client._client.publish(topic, encode(request), qos=1)

    def flood(self) -> None:
        for index in range(FLOOD):
            self.say(Submit(f"f{index}", "mlp"))

    def taken(self, limit_s: float = LIMIT_S) -> None:
        """Until the broker has all of it."""
        for _ in range(FLOOD):
            self.client._acks.get(timeout=limit_s)

    def until(self, found: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
        """Hear until something holds."""
        deadline = time.monotonic() + limit_s
        while not found():
            left = deadline - time.monotonic()
            assert left > 0, f"heard {len(self.heard)}, at last {self.heard[-3:]}"
            with contextlib.suppress(queue.Empty):
                self.heard.append(decode(Response, self.client.next(min(left, 0.2)).payload))

    @property
    def accepted(self) -> set[str]:
        return {each.run for each in self.heard if isinstance(each, Accepted)}

    @property
    def refused(self) -> list[Rejected]:
        return [each for each in self.heard if isinstance(each, Rejected)]


class MostMemory:
    """The most that a process has resident, while this is entered."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.before_nbytes = self.most_nbytes = self._process.memory_info().rss

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self.most_nbytes = max(self.most_nbytes, self._process.memory_info().rss)

    def __enter__(self) -> MostMemory:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.fixture
def program(system: System) -> subprocess.Popen[bytes]:
    """An orchestrator that serves a model on one device."""
    system.add(mlp(4), "mlp", segments=2, max_shape={"batch": 4})
    system.broker.login("flooder", "client")
    system.agent()
    program = system.start_process("--log", "info")
    with Person(system.broker) as person:
        run = person.submit_until_accepted("mlp", 1, RunOptions())
        person.cancel(run)
    return program


def test_a_flood_of_submits_hinders_nobody_for_long(
    system: System, program: subprocess.Popen[bytes]
):
    feeds = [FEED] * 50
    with (
        crowdpipe.Session("mlp", str(system.broker.client), timeout_s=LIMIT_S) as session,
        Flooder(system) as flooder,
    ):
        session.run(None, FEED)
        with MostMemory(program.pid) as memory:
            flooder.flood()
            assert len(list(session.run_many(feeds))) == len(feeds)
            flooder.taken()
            session.run(None, FEED)
        assert memory.most_nbytes - memory.before_nbytes < MOST_NBYTES
        flooder.until(lambda: len(flooder.accepted) == RUNS and bool(flooder.refused))
        assert {each.kind for each in flooder.refused} == {"busy"}
        with crowdpipe.Session("mlp", str(flooder.url), timeout_s=SOON_S) as another:
            another.run(None, FEED)
        for run in sorted(flooder.accepted):
            flooder.say(CancelRun(run))
        flooder.say(Submit("again", "mlp"))
        flooder.until(lambda: "again" in flooder.accepted, SOON_S)
