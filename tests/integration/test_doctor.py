"""`crowdpipe-agent doctor` beside a real broker, a real store and what an orchestrator says."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from edge_agent import __version__
from model_store.server import StoreServer
from tests.support.agent_process import ROOT, AgentProcess, Desk
from tests.support.broker import BrokerUnderTest, fresh_name
from wire import WIRE_VERSION
from wire.broker_url import BrokerUrl
from wire.messages.state import OrchestratorState
from wire.record import encode
from wire.topics import ORCHESTRATOR, Topics

LIMIT_S = 60.0
LONGEST_S = 22.0  # what it may take in all, with a little room
TOPICS = Topics()
DESK_KEYS = ("broker_name", "broker_port", "broker_login", "desk", "store", "clock")


@dataclass(frozen=True)
class Told:
    """What the doctor said, as JSON, and its exit status."""

    plain: dict[str, Any]
    status: int

    def level(self, key: str) -> str:
        return str(self._check(key)["level"])

    def what(self, key: str) -> str:
        return str(self._check(key)["what"])

    def levels(self, *keys: str) -> list[str]:
        return [self.level(key) for key in keys]

    def _check(self, key: str) -> dict[str, Any]:
        return next(check for check in self.plain["checks"] if check["key"] == key)


def ask(url: BrokerUrl | None, home: Path, *before: str, **environment: str) -> Told:
    command = [*before, sys.executable, "-m", "edge_agent", "doctor", "--json"]
    command += ["--cache", str(home / "cache")]
    if url is not None:
        environment["CROWDPIPE_AGENT_BROKER"] = str(url)
    began_s = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.stderr == ""
    assert time.monotonic() - began_s < LONGEST_S
    return Told(json.loads(done.stdout), done.returncode)


class Surroundings:
    """Broker and store, and a desk that says that it is there, `news`."""

    def __init__(self, broker: BrokerUnderTest, store: StoreServer) -> None:
        self.broker = broker
        self.store = store
        base = f"http://:{store.port}"
        self.news = OrchestratorState(
            "online", "c", "b", 1, __version__, WIRE_VERSION, store_base=base
        )

    def say(self, **changes: Any) -> None:
        payload = encode(replace(self.news, **changes))
        with self.broker.connect(ORCHESTRATOR, ORCHESTRATOR) as client:
            client.publish(TOPICS.orchestrator_state, payload, retain=True)


@pytest.fixture
def around(fresh_mosquitto: BrokerUnderTest, tmp_path: Path) -> Iterator[Surroundings]:
    credentials = fresh_mosquitto.credentials
    with StoreServer(tmp_path / "store", authorise=credentials.verify) as store:
        surroundings = Surroundings(fresh_mosquitto, store)
        surroundings.say()
        yield surroundings


def test_where_all_is_well_nothing_is_a_fault(around: Surroundings, tmp_path: Path):
    told = ask(around.broker.login(fresh_name()), tmp_path)
    assert (told.status, told.plain["not_asked"]) == (0, [])
    assert told.levels(*DESK_KEYS) == ["ok"] * len(DESK_KEYS), told.plain
    assert told.levels("python", "runtime", "numpy", "folder", "settings") == ["ok"] * 5


def test_a_wrong_secret_is_told_and_the_store_not_asked(around: Surroundings, tmp_path: Path):
    url = around.broker.login(fresh_name())
    told = ask(replace(url, secret="wrong"), tmp_path)
    assert (told.status, told.level("broker_login")) == (3, "fault")
    assert "refuses" in told.what("broker_login")
    assert told.plain["not_asked"] == ["desk", "store", "clock"]


def test_a_port_where_nobody_listens_is_told(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    told = ask(BrokerUrl("127.0.0.1", port, user="a", secret="b"), tmp_path)
    assert (told.status, told.level("broker_port")) == (3, "fault")
    assert told.what("broker_port").startswith("Nothing listens at 127.0.0.1")


def test_a_name_that_does_not_resolve_is_told(tmp_path: Path):
    told = ask(BrokerUrl("desk.invalid", 1883, user="a", secret="b"), tmp_path)
    assert (told.status, told.level("broker_name")) == (3, "fault")
    assert "broker_port" in told.plain["not_asked"]


def test_what_accepts_and_says_nothing_is_given_up_in_time(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = BrokerUrl("127.0.0.1", mute.getsockname()[1], user="a", secret="b")
        told = ask(url, tmp_path)
        assert (told.level("broker_login"), told.status) == ("fault", 3)
        secure = ask(replace(url, tls=True), tmp_path)
    assert (secure.level("certificate"), secure.status) == ("fault", 3)


def test_a_plain_broker_behind_an_address_for_tls_is_told(around: Surroundings, tmp_path: Path):
    told = ask(replace(around.broker.login(fresh_name()), tls=True), tmp_path)
    assert "does not speak TLS" in told.what("certificate")


def test_a_store_that_is_away_is_told(around: Surroundings, tmp_path: Path):
    around.store.stop()
    told = ask(around.broker.login(fresh_name()), tmp_path)
    assert (told.status, told.level("broker_login"), told.level("store")) == (3, "ok", "fault")
    assert "refused" in told.what("store")


def test_a_store_that_refuses_this_device_is_told(fresh_mosquitto: BrokerUnderTest, tmp_path: Path):
    with StoreServer(tmp_path / "store", authorise=lambda _user, _secret: None) as store:
        Surroundings(fresh_mosquitto, store).say()
        told = ask(fresh_mosquitto.login(fresh_name()), tmp_path)
    assert "refuses this device's secret" in told.what("store")
    assert told.level("clock") == "ok"


def test_a_desk_that_is_gone_or_of_another_version_is_told(around: Surroundings, tmp_path: Path):
    url = around.broker.login(fresh_name())
    around.say(status="offline")
    gone = ask(url, tmp_path)
    assert (gone.level("desk"), gone.level("store"), gone.status) == ("fault", "ok", 3)
    around.say(version="0.0.9")
    other = ask(url, tmp_path)
    assert (other.level("desk"), other.status) == ("advice", 0)


def test_a_broker_without_a_desk_is_told(fresh_mosquitto: BrokerUnderTest, tmp_path: Path):
    told = ask(fresh_mosquitto.login(fresh_name()), tmp_path)
    assert "never said a word" in told.what("desk")


def test_an_agent_that_runs_keeps_its_connection(around: Surroundings, tmp_path: Path):
    name = fresh_name()
    url = around.broker.login(name)
    with around.broker.connect(ORCHESTRATOR, ORCHESTRATOR) as client:
        desk = Desk(client)
        agent = AgentProcess(name, url, tmp_path)
        try:
            birth = desk.until(name, "state", lambda state: state.status == "online")
            for home in (tmp_path, tmp_path / "elsewhere"):  # by its folder, then by its name
                told = ask(url, home)
                assert (told.status, told.level("folder")) == (0, "advice")
                assert told.what("broker_login").startswith("Not tried")
            assert agent.process.poll() is None
            assert {state.connection for state in desk.states(name)} == {birth.connection}
        finally:
            agent.end()


def test_a_secret_that_others_may_read_is_told(tmp_path: Path):
    file = tmp_path / "settings"
    file.write_text(json.dumps({"broker": "mqtt://a:b@127.0.0.1:1"}))
    file.chmod(0o644)
    told = ask(None, tmp_path, CROWDPIPE_AGENT_CONFIG=str(file))
    assert (told.level("settings"), "mode 644" in told.what("settings")) == ("advice", True)
    file.chmod(0o600)
    assert ask(None, tmp_path, CROWDPIPE_AGENT_CONFIG=str(file)).level("settings") == "ok"


def test_settings_that_cannot_be_used_are_a_fault_and_the_rest_is_told(tmp_path: Path):
    told = ask(None, tmp_path, CROWDPIPE_AGENT_BROKER="http://desk")
    assert (told.status, told.level("settings"), told.level("python")) == (3, "fault", "ok")


def test_on_android_what_hangs_is_told_and_holds_nobody(tmp_path: Path):
    for name in ("getprop", "settings", "device_config", "cmd", "termux-battery-status"):
        command = tmp_path / name
        command.write_text("#!/bin/sh\nexec sleep 600\n")
        command.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    told = ask(None, tmp_path, PATH=path, ANDROID_ROOT="/system", TERMUX_VERSION="0.118.3")
    assert told.status == 0
    assert "within 8 s" in told.what("termux_api")
    assert told.levels("phantom_processes", "battery_optimisation") == ["advice"] * 2


DENY = """
for name in stat loadavg uptime vmstat; do mount --bind "$0" /proc/$name || exit 1; done
exec setpriv --bounding-set -all --inh-caps -all "$@"
"""


def test_an_app_that_may_read_little_of_proc_is_well(tmp_path: Path):
    """In a mount namespace whose `/proc` has files that nobody may read, and without root's
    powers over them."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("needs root, unshare and setpriv, to take rights away")
    denied = tmp_path / "denied"
    denied.touch(0o000)
    before = ("unshare", "-m", "sh", "-c", DENY, str(denied))
    tried = subprocess.run(
        [*before, "cat", "/proc/stat"], capture_output=True, text=True, timeout=LIMIT_S
    )
    if "Permission denied" not in tried.stderr or "/proc/stat" not in tried.stderr:
        pytest.skip(f"rights cannot be taken away here: {tried.stderr.strip()[-200:]}")
    told = ask(None, tmp_path, *before)
    assert (told.status, "kept from apps" in told.what("proc")) == (0, True)
    assert told.level("folder") == "ok"
