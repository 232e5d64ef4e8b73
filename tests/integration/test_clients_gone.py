"""A client that is killed: its run waits, then ends; one that is only quiet keeps its run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import crowdpipe
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.agent_process import ROOT
from tests.support.models import WIDTH, mlp
from tests.support.mqtt_client import MqttClient
from tests.support.orchestrated import TOPICS, System
from wire.messages.progress import RunProgress
from wire.record import decode

LIMIT_S = 60.0
HASTY = OrchestratorOptions(settle_s=0.5, ping_wait_s=2.0, client_lease_s=4.0, client_gone_s=8.0)
ENDLESS = """
import itertools, sys
import numpy as np
import crowdpipe

feeds = ({"x": np.ones((2, int(sys.argv[2])), np.float32)} for _ in itertools.count())
with crowdpipe.Session("mlp", sys.argv[1]) as session:
    for number, _ in enumerate(session.run_many(feeds)):
        print(number, flush=True)
"""


@pytest.fixture
def served(system: System) -> System:
    system.add(mlp(6), "mlp", segments=6, max_shape={"batch": 4})
    system.agent()
    system.start(options=HASTY)
    return system


@pytest.fixture
def watcher(served: System) -> Iterator[MqttClient]:
    with MqttClient(served.broker.watcher) as client:
        client.subscribe(TOPICS.subscription("run"))
        yield client


@pytest.fixture
def endless(served: System) -> Iterator[subprocess.Popen[str]]:
    """A program that runs inputs without end, and has had its first result."""
    command = [sys.executable, "-c", ENDLESS, str(served.broker.client), str(WIDTH)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        yield process
        process.kill()


def until(watcher: MqttClient, found: Callable[[RunProgress], bool]) -> RunProgress:
    """The first progress of a run that a watcher sees and that is so."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        message = watcher.next(max(0.0, deadline - time.monotonic()))
        if message.payload and found(progress := decode(RunProgress, message.payload)):
            return progress


def test_the_run_of_a_client_that_was_killed_waits_and_then_ends(
    served: System, watcher: MqttClient, endless: subprocess.Popen[str]
):
    until(watcher, lambda told: told.status == "running")
    endless.kill()
    waits = until(watcher, lambda told: told.reason is not None)
    assert (waits.status, waits.reason) == (
        "running",
        "nothing is heard of its client: it waits",
    )
    assert served.orchestrator is not None
    state = served.orchestrator._machine.state
    assert not any(plan.in_flight for plan in state.plans.values())
    ended = until(watcher, lambda told: told.status != "running")
    assert ended.status == "failed"
    assert "nothing was heard of this run's client" in (ended.reason or "")


def test_a_client_that_reads_nothing_for_long_says_that_it_is_there(
    served: System, endless: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("crowdpipe.client.wanted.RENEW_S", 1.0)
    feed = {"x": np.ones((2, WIDTH), np.float32)}
    with (
        MqttClient(served.broker.watcher) as watcher,
        crowdpipe.Session("mlp", str(served.broker.client)) as session,
    ):
        results = session.run_many(feed for _ in range(40))
        given = [next(results)]
        endless.kill()
        watcher.subscribe(TOPICS.subscription("run"))
        silent = until(watcher, lambda told: told.reason is not None)
        gone = until(watcher, lambda told: told.status == "failed")
        assert gone.run == silent.run
        given += list(results)
    assert len(given) == 40
