"""The orchestrator as a program: how it starts, ends, and says what is wrong."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.shell.orchestrator import Orchestrator
from tests.support import orchestrated
from tests.support.agent_process import ROOT
from tests.support.models import mlp
from tests.support.mqtt_client import MqttClient
from tests.support.orchestrated import LIMIT_S, TOPICS, System
from wire import WIRE_VERSION
from wire.errors import OperatorError, Refused, Replaced, TimedOut
from wire.messages.model import ModelSummary
from wire.messages.requests import Rejected, Submit
from wire.messages.state import OrchestratorState
from wire.record import decode, encode
from wire.record_readers import MAX_INT

system = orchestrated.system


def program(*flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", *flags],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def state_seen(
    watcher: MqttClient, wanted: Callable[[OrchestratorState], bool]
) -> OrchestratorState:
    deadline = time.monotonic() + LIMIT_S
    while True:
        message = watcher.next(deadline - time.monotonic())
        state: OrchestratorState = decode(OrchestratorState, message.payload)
        if wanted(state):
            return state


def test_asked_to_stop_it_says_offline_and_ends_with_status_0(system: System):
    with system.broker.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.orchestrator_state)
        process = system.start_process()
        online = state_seen(watcher, lambda state: state.status == "online")
        assert online.store_base == f"http://:{system.store.port}"
        process.send_signal(signal.SIGTERM)
        offline = state_seen(watcher, lambda state: state.status == "offline")
        assert process.wait(LIMIT_S) == 0
    assert offline.connection == online.connection
    assert offline.boot == online.boot


def test_killed_its_will_says_offline_and_the_next_generation_is_higher(system: System):
    with system.broker.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.orchestrator_state)
        process = system.start_process()
        first = state_seen(watcher, lambda state: state.status == "online")
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        will = state_seen(watcher, lambda state: state.status == "offline")
        assert will.connection == first.connection
        system.start_process()
        second = state_seen(watcher, lambda state: state.status == "online")
    assert second.generation > first.generation
    assert second.boot != first.boot


def test_without_a_broker_it_says_what_to_give(tmp_path: Path):
    done = program("--store", "http://127.0.0.1:1", CROWDPIPE_BROKER="")
    assert done.returncode == 2
    assert "--broker mqtt://" in done.stderr


def test_a_wrong_secret_ends_it_with_what_to_check(system: System):
    url = system.broker.orchestrator.login("orchestrator", "wrong")
    done = program(
        *("--broker", str(url), "--store", system.store.base, "--home", str(system.home / "o"))
    )
    assert done.returncode == Refused.exit_code
    assert "check user and secret" in done.stderr
    assert "wrong" not in done.stderr


def test_a_user_who_is_no_orchestrator_ends_it_with_what_to_do(system: System):
    orchestrator = Orchestrator(
        orchestrated.make_settings(
            str(system.broker.login("phone-x")), system.store.base, system.home / "o"
        )
    )
    orchestrator.start()
    with pytest.raises(Refused, match="orchestrator"):
        orchestrator.run_forever()
    orchestrator.stop()


def test_two_orchestrators_never_share_a_home(system: System):
    system.start()
    with pytest.raises(OperatorError, match="already runs"):
        Orchestrator(system.settings()).start()


def test_a_newcomer_replaces_whoever_was_there(system: System):
    first = system.start()
    second = Orchestrator(
        orchestrated.make_settings(
            str(system.broker.orchestrator), system.store.base, system.home / "second"
        )
    )
    second.start()
    try:
        second.wait_ready(LIMIT_S)
        with pytest.raises(Replaced):
            first.run_forever()
        assert second.running
    finally:
        second.stop()


@pytest.mark.parametrize(("theirs", "ours"), [(4711, 4712), (MAX_INT, 1)])
def test_a_generation_retained_by_another_journals_orchestrator_is_passed_if_it_is_likely(
    system: System, theirs: int, ours: int
):
    before = OrchestratorState("online", "c", "another boot", theirs, "0", WIRE_VERSION)
    with system.broker.connect("orchestrator", "orchestrator") as other:
        other.publish(TOPICS.orchestrator_state, encode(before), retain=True)
    with system.broker.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.orchestrator_state)
        system.start()
        state = state_seen(watcher, lambda state: state.boot != before.boot)
    assert state.status == "online"
    assert state.generation == ours


def test_a_store_that_does_not_answer_is_what_readiness_waits_for(system: System):
    system.store.stop()
    orchestrator = Orchestrator(system.settings())
    orchestrator.start()
    try:
        with pytest.raises(TimedOut, match="store"):
            orchestrator.wait_ready(1.0)
        system.store.start()
        orchestrator.wait_ready(LIMIT_S)
    finally:
        orchestrator.stop()


def test_a_broker_that_is_not_there_yet_is_waited_for(system: System):
    system.broker.stop()
    orchestrator = Orchestrator(system.settings())
    orchestrator.start()
    try:
        with pytest.raises(TimedOut, match="cannot reach the broker"):
            orchestrator.wait_ready(1.0)
        system.broker.start()
        orchestrator.wait_ready(LIMIT_S)
    finally:
        orchestrator.stop()


def test_models_appear_when_they_are_added_and_go_when_they_are_removed(system: System):
    system.start()
    with system.broker.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.model("mlp"))
        manifest = system.add(mlp(3), "mlp", segments=3, max_shape={"batch": 4})
        summary: ModelSummary = decode(ModelSummary, watcher.next(LIMIT_S).payload)
        assert summary.digest == manifest.digest
        assert summary.segments == 3
        system.store.manifests.remove("mlp")
        assert watcher.next(LIMIT_S).payload == b""


def test_what_is_no_message_of_ours_ends_nothing(system: System):
    orchestrator = system.start()
    with system.broker.connect("client", "client") as client:
        topic = TOPICS.client("clients/client/s1", "requests")
        for payload in (b"", b"{", b"\xff" * 100, b'{"type": "submit"}', b"[" * 100_000):
            client.publish(topic, payload)
        data = TOPICS.data("orchestrator", "clients/client/s1")
        for payload in (b"", b"CP", b"CP\x00\xff", b"CP\x01\x00" + bytes(28)):
            client.publish(data, payload)
    with orchestrated.Person(system.broker) as person:
        person.ask(Submit("r1", "nowhere", count=1))
        said = person.until(lambda: person.answer(Rejected, "r1"), "the run to be rejected")
    assert said.kind == "unknown_model"
    assert orchestrator.running


def test_its_threads_end_with_it(system: System):
    before = set(threading.enumerate())
    system.start().stop()
    after = {thread.name for thread in set(threading.enumerate()) - before if thread.is_alive()}
    assert not after & {"mqtt", "orchestrator", "journal", "store-watch"}
    with system.broker.connect("watcher", "watcher") as watcher:
        watcher.subscribe(TOPICS.orchestrator_state)
        assert decode(OrchestratorState, watcher.next().payload).status == "offline"
        with pytest.raises(queue.Empty):
            watcher.next(0.2)
