"""Which broker is used, and the program that runs one alone."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from broker_config import broker_choice
from broker_config.broker_choice import choose_broker
from broker_config.credentials import Credentials
from broker_config.url import BrokerUrl
from bus.broker_probe import knock
from tests.support.broker import BrokerUnderTest
from wire.errors import BrokerUnreachable, InvalidUrl, Refused
from wire.users import User

LIMIT_S = 20.0


@pytest.fixture
def credentials(tmp_path: Path) -> Credentials:
    return Credentials(tmp_path)


def test_a_named_broker_is_used(
    mosquitto: BrokerUnderTest, tmp_path: Path, credentials: Credentials
):
    broker = choose_broker(str(mosquitto.client), tmp_path, credentials)
    assert broker.name == "external"
    broker.start()
    broker.reload()
    broker.stop()
    knock(broker.url_for("anyone"))
    assert str(mosquitto.port) in broker.describe()
    assert str(mosquitto.client.secret) not in broker.describe()


def test_a_named_broker_that_refuses_or_is_not_there_says_so(
    mosquitto: BrokerUnderTest, tmp_path: Path, credentials: Credentials
):
    with pytest.raises(Refused):
        choose_broker(str(mosquitto.url), tmp_path, credentials).start()
    with pytest.raises(BrokerUnreachable, match="no broker answers"):
        choose_broker("mqtt://127.0.0.1:1", tmp_path, credentials).start()
    with pytest.raises(InvalidUrl):
        choose_broker("tcp://host", tmp_path, credentials)


def test_mosquitto_is_used_where_it_is_on_the_path(tmp_path: Path, credentials: Credentials):
    broker = choose_broker(None, tmp_path, credentials)
    assert broker.name == "mosquitto"
    assert broker.describe().startswith("Mosquitto")


def test_the_embedded_one_is_used_where_it_is_not(
    tmp_path: Path, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    credentials.add("one", "device")
    broker = choose_broker(None, tmp_path, credentials)
    assert broker.name == "embedded"
    broker.start()
    knock(broker.url_for("one"))
    broker.stop()


def test_without_any_broker_a_person_is_told_what_to_install(
    tmp_path: Path, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker_choice, "embedded_is_there", lambda: False)
    with pytest.raises(BrokerUnreachable, match="install Mosquitto"):
        choose_broker(None, tmp_path, credentials)


def _lines_of(program: subprocess.Popen[str]) -> queue.Queue[str]:
    lines: queue.Queue[str] = queue.Queue()
    assert program.stdout is not None
    threading.Thread(
        target=lambda stream: [lines.put(line) for line in stream],
        args=(program.stdout,),
        daemon=True,
    ).start()
    return lines


def _await_login(url: BrokerUrl) -> None:
    """The program looks at the file of users once a second."""
    ticks = threading.Event()
    for _ in range(200):
        try:
            knock(url)
            return
        except Refused:
            ticks.wait(0.05)
    raise AssertionError("the new user was not let in")


def test_the_program_runs_one_alone_takes_new_users_and_ends_when_told(tmp_path: Path):
    program = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "broker_config",
            "--home",
            str(tmp_path),
            "--port",
            "0",
            "--user",
            "phone:device",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    said = _lines_of(program).get(timeout=LIMIT_S)
    port = int(said.split("mqtt://127.0.0.1:")[1].split(",")[0])
    credentials = Credentials(tmp_path)
    _await_login(_url(port, credentials.need("phone")))
    _await_login(_url(port, credentials.add("later", "client")))
    program.send_signal(signal.SIGTERM)
    assert program.wait(LIMIT_S) == 0
    with pytest.raises(BrokerUnreachable):
        knock(_url(port, credentials.need("phone")))


def _url(port: int, user: User) -> BrokerUrl:
    return BrokerUrl("127.0.0.1", port).login(user.name, user.secret)


def test_the_program_says_what_is_wrong(tmp_path: Path, mosquitto: BrokerUnderTest):
    base = [sys.executable, "-m", "broker_config", "--home", str(tmp_path)]
    for options, reason in (
        (["--user", "phone:king"], "write NAME:ROLE"),
        (["--user", "clients:device"], "reserved"),
        (["--port", str(mosquitto.port)], "taken"),
    ):
        ended = subprocess.run(
            [*base, *options], capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert ended.returncode in (2, 3)
        assert reason in ended.stderr
        assert "Traceback" not in ended.stderr


def test_a_secret_is_only_in_private_files(mosquitto: BrokerUnderTest):
    secret = str(mosquitto.client.secret)
    for path in mosquitto.home.rglob("*"):
        if path.is_file() and secret.encode() in path.read_bytes():
            assert path.stat().st_mode & 0o077 == 0, path
            assert path.name == "credentials.json", "Mosquitto needs only the hash"
    assert json.loads(mosquitto.credentials.path.read_bytes())["users"]
    assert os.fspath(mosquitto.home)
