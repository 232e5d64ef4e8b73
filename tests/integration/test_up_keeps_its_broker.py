"""What `crowdpipe up` does when a part of it ends: a broker of its own is started again."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import crowdpipe
from broker_config.mosquitto import MosquittoBroker
from crowdpipe.serving import system as serving
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.stores import open_store
from crowdpipe.serving.system import System, SystemSettings
from crowdpipe.serving.users import add_user
from tests.support.agent_process import AgentProcess
from tests.support.broker import need_mosquitto
from tests.support.models import WIDTH, mlp, save
from wire.errors import DiskFull, OperatorError, TimedOut

LIMIT_S = 60.0


class Up:
    """A system that serves in a thread of its own; `error` is what ended it."""

    def __init__(self, home: Path) -> None:
        self.system = System(SystemSettings(home))
        self.error: OperatorError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.system.run()
        except OperatorError as error:
            self.error = error

    def __enter__(self) -> Up:
        self.system.start()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.system.end()
        self.join()
        self.system.stop()

    def join(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    def kill_broker(self) -> None:
        broker = self.system.broker
        assert isinstance(broker, MosquittoBroker)
        os.kill(broker.pid, signal.SIGKILL)


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    need_mosquitto()
    with Up(tmp_path / "home") as up:
        yield up


@pytest.fixture
def start_agent(up: Up, tmp_path: Path) -> Iterator[Callable[[str], AgentProcess]]:
    agents: list[AgentProcess] = []

    def start(name: str) -> AgentProcess:
        url = add_user(up.system.settings.home, name, "device")
        assert url is not None
        agents.append(AgentProcess(name, url, tmp_path / name, "--memory", "64MiB"))
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()


def test_a_run_goes_on_and_devices_can_be_added_after_the_broker_was_killed(
    up: Up,
    start_agent: Callable[[str], AgentProcess],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
):
    home = up.system.settings.home
    with open_store(home) as store:
        file = save(mlp(3), tmp_path / "mlp.onnx")
        add_model(store, file, "mlp", CutWishes(max_shape={"batch": 4}))
    start_agent("phone-1")
    feed = {"x": np.ones((2, WIDTH), np.float32)}
    broker = str(up.system.url_for("local"))
    with crowdpipe.Session("mlp", broker, timeout_s=LIMIT_S) as session:
        results = session.run_many(feed for _ in range(30))
        given = [next(results)]
        up.kill_broker()
        given += list(results)
    assert len(given) == 30
    assert start_agent("phone-2").name == "phone-2"
    assert up.error is None
    said = [each.getMessage() for each in caplog.records if each.name == "crowdpipe.up"]
    assert said == ["the broker has ended; starting it again", "the broker serves again"]


@pytest.mark.parametrize("error", [TimedOut("waited for the broker"), DiskFull("no room left")])
def test_a_broker_that_does_not_take_new_users_at_once_is_told_again(
    up: Up,
    start_agent: Callable[[str], AgentProcess],
    monkeypatch: pytest.MonkeyPatch,
    error: OperatorError,
):
    reload, refused = up.system.broker.reload, threading.Event()

    def reload_later() -> None:
        if not refused.is_set():
            refused.set()
            raise error
        reload()

    monkeypatch.setattr(up.system.broker, "reload", reload_later)
    assert start_agent("phone-1").name == "phone-1"
    assert refused.is_set()
    assert up.error is None


def test_a_store_that_has_ended_ends_what_serves(up: Up):
    up.system.store.stop()
    up.join()
    assert "model store has ended" in str(up.error)


def test_a_broker_that_ends_again_and_again_ends_what_serves(
    up: Up, monkeypatch: pytest.MonkeyPatch
):
    ended = threading.Event()
    monkeypatch.setattr(serving, "LOOK_EVERY_S", 0.05)
    start = up.system.broker.start

    def start_and_kill() -> None:
        start()
        up.kill_broker()
        ended.set()

    monkeypatch.setattr(up.system.broker, "start", start_and_kill)
    up.kill_broker()
    up.join()
    assert ended.is_set()
    assert up.error is not None
    assert "ended 5 times within 60 s" in str(up.error)
    assert "its log in" in str(up.error)
