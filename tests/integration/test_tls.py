"""A desk that speaks TLS: real broker, store and orchestrator, and those who connect to it.

On loopback, where `--tls` asks for what is always so where other machines reach the desk.
"""

from __future__ import annotations

import socket
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import crowdpipe
from broker_config.credentials import FILE_NAME
from broker_config.private_file import make_private_folder
from bus.broker_probe import knock
from crowdpipe.home import AUTHORITY_VARIABLE, broker_url, read_up
from crowdpipe.serving import system as serving
from crowdpipe.serving.certificates import Certificates
from crowdpipe.serving.models import CutWishes, add_model
from crowdpipe.serving.stores import open_store
from crowdpipe.serving.system import System, SystemSettings
from crowdpipe.serving.users import add_user
from model_store.connection_limits import MOST
from tests.support.agent_process import AgentProcess
from tests.support.broker import BrokerUnderTest, need_mosquitto
from tests.support.models import WIDTH, mlp, save
from wire.broker_url import BrokerUrl, parse_url
from wire.errors import BrokerUnreachable, StoreUnreachable, Untrusted

LIMIT_S = 60.0
LOOPBACK = "127.0.0.1"
ROWS = 20_000
StartAgent = Callable[..., AgentProcess]


class SecuredDesk:
    """One that serves in a thread of its own."""

    def __init__(self, home: Path, **settings: object) -> None:
        self.home = home
        self.system = System(SystemSettings(home, tls=True, **settings))  # type: ignore[arg-type]
        self._thread = threading.Thread(target=self.system.run)

    def url(self, name: str, role: str = "device") -> BrokerUrl:
        """As `crowdpipe device add` or `user add` prints it."""
        url = add_user(self.home, name, role)  # type: ignore[arg-type]
        assert url is not None
        return url

    def run_once(self, broker: BrokerUrl | str) -> None:
        """A model of one layer through whichever agent is there, with frames of 2 MB."""
        file = save(mlp(1, 0), self.home / "m.onnx")
        with open_store(self.home) as store:
            add_model(store, file, "m", CutWishes(segments=1, max_shape={"batch": ROWS}))
        feeds = {"x": np.ones((ROWS, WIDTH), np.float32)}
        with crowdpipe.Session("m", broker) as session:
            assert session.run(None, feeds)[0].shape == (ROWS, WIDTH)

    def __enter__(self) -> SecuredDesk:
        self.system.start()
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.system.end()
        self._thread.join(LIMIT_S)
        self.system.stop()
        assert not self._thread.is_alive()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[SecuredDesk]:
    need_mosquitto()
    with SecuredDesk(tmp_path / "home") as desk:
        yield desk


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[StartAgent]:
    agents: list[AgentProcess] = []

    def start(url: BrokerUrl, *flags: str) -> AgentProcess:
        folder = tmp_path / f"agent-{len(agents)}"
        agents.append(AgentProcess(url.user or "phone", url, folder, "--memory", "64MiB", *flags))
        return agents[-1]

    yield start
    for agent in agents:
        agent.end()


def test_all_work_goes_over_tls_to_whoever_has_the_line_that_the_desk_prints(
    desk: SecuredDesk, start_agent: StartAgent
):
    url = desk.url("phone")
    assert str(url).startswith("mqtts://phone:")
    assert url.authority == Certificates.of(desk.home).fingerprint
    agent = start_agent(url)
    desk.run_once(desk.url("ann", "client"))
    kept = agent.folder / "cache" / "authority.pem"
    assert kept.read_bytes() == Certificates.of(desk.home).authority.read_bytes()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert desk.system.store.base.startswith("https://")


def test_an_authority_may_be_named_by_its_file_instead(
    desk: SecuredDesk, start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch
):
    file = str(Certificates.of(desk.home).authority)
    start_agent(replace(desk.url("phone"), authority=None), "--authority", file)
    monkeypatch.setenv(AUTHORITY_VARIABLE, file)
    plain = str(replace(desk.url("ann", "client"), authority=None))
    assert broker_url(plain).authority == file
    desk.run_once(plain)


def test_commands_on_the_desk_itself_find_all_of_it_in_the_home(desk: SecuredDesk):
    record = read_up(desk.home)
    assert record is not None
    assert record.store.startswith("https://")
    assert not record.url.tls, "a plain door that only this machine reaches"
    assert record.url.host == LOOPBACK
    knock(record.url)
    with open_store(desk.home) as store:
        assert store.manifests.names() == []


def test_an_agent_of_another_desk_ends_and_says_why(
    desk: SecuredDesk, start_agent: StartAgent, tmp_path: Path
):
    other = Certificates.of(tmp_path / "other")
    other.ensure([LOOPBACK])
    agent = start_agent(replace(desk.url("phone"), authority=other.fingerprint))
    assert agent.wait() == Untrusted.exit_code
    assert "shows another authority than the address names" in agent.said()
    with pytest.raises(Untrusted, match="another authority"):
        crowdpipe.models(replace(desk.url("ann", "client"), authority=str(other.authority)))


def test_a_name_that_the_certificate_does_not_have_is_refused(
    desk: SecuredDesk, start_agent: StartAgent, monkeypatch: pytest.MonkeyPatch
):
    """As of a phone that reaches the desk by an address which the desk does not know of."""
    certificates = Certificates.of(desk.home)
    certificates.server.unlink()
    certificates.ensure(["192.0.2.7"])
    monkeypatch.setattr(serving, "names_of_desk", lambda _host: ["192.0.2.7"])
    desk.system.broker.reload()
    agent = start_agent(replace(parse_url(str(read_up(desk.home).told)), user="x", secret="y"))  # type: ignore[union-attr]
    assert agent.wait() == Untrusted.exit_code
    assert f"its certificate is not for {LOOPBACK}" in agent.said()


def test_plainly_to_the_port_that_speaks_tls_it_is_said_what_to_write(
    desk: SecuredDesk, start_agent: StartAgent
):
    plain = replace(desk.url("phone"), tls=False)
    with pytest.raises(BrokerUnreachable, match="speaks TLS alone; write mqtts://"):
        knock(plain)
    with pytest.raises(BrokerUnreachable, match="speaks TLS alone; write mqtts://"):
        crowdpipe.models(plain)
    agent = start_agent(plain)
    with pytest.raises(subprocess.TimeoutExpired):
        agent.process.wait(3.0)
    assert "speaks TLS alone; write mqtts://" in agent.said()
    assert "libssl" not in agent.maps(), "to learn that, nothing was loaded"


def test_tls_to_a_plain_port_is_told_as_well(mosquitto: BrokerUnderTest, start_agent: StartAgent):
    secured = replace(mosquitto.client, tls=True)
    with pytest.raises(BrokerUnreachable, match="does not speak TLS"):
        knock(secured)
    with pytest.raises(BrokerUnreachable, match="does not speak TLS"):
        crowdpipe.models(secured)


def test_a_new_address_of_the_desk_is_served_without_a_start(
    desk: SecuredDesk, monkeypatch: pytest.MonkeyPatch
):
    before = Certificates.of(desk.home).server.read_bytes()
    names = serving.names_of_desk(LOOPBACK)
    monkeypatch.setattr(serving, "names_of_desk", lambda _host: [*names, "192.0.2.77"])
    monkeypatch.setattr(serving, "NAMES_EVERY_S", 0.0)
    shown = {port: _named(port, "192.0.2.77", desk) for port in _ports(desk)}
    assert all(shown.values()), shown
    assert Certificates.of(desk.home).server.read_bytes() != before
    knock(desk.url("phone"))


def _ports(desk: SecuredDesk) -> list[int]:
    return [desk.system.outside.port, desk.system.store.port]


def _named(port: int, name: str, desk: SecuredDesk) -> bool:
    """Whether what is shown there names it, within the limit."""
    context = ssl.create_default_context(cafile=str(Certificates.of(desk.home).authority))
    waiting = threading.Event()
    for _ in range(200):
        with (
            socket.create_connection((LOOPBACK, port), LIMIT_S) as plain,
            context.wrap_socket(plain, server_hostname=LOOPBACK) as link,
        ):
            shown = link.getpeercert()
        assert shown is not None
        if ("IP Address", name) in shown["subjectAltName"]:
            return True
        waiting.wait(0.05)
    return False


def test_plainly_the_store_gives_nothing(desk: SecuredDesk):
    port = desk.system.store.port
    with socket.create_connection((LOOPBACK, port), LIMIT_S) as plain:
        plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        plain.settimeout(LIMIT_S)
        try:
            answer = plain.recv(100)
        except ConnectionError:
            answer = b""
        assert b"HTTP" not in answer


def test_who_says_nothing_to_the_store_takes_no_place_from_others(
    desk: SecuredDesk,
):
    """More than it may have open, none of which comes to the end of its handshake."""
    with ExitStack() as stack:
        for _ in range(MOST + 20):
            stack.enter_context(
                socket.create_connection((LOOPBACK, desk.system.store.port), LIMIT_S)
            )
        with open_store(desk.home) as store:
            assert store.manifests.names() == []


def test_a_store_of_another_authority_is_not_read(desk: SecuredDesk, tmp_path: Path):
    Certificates.of(desk.home).authority.unlink()
    other = Certificates.of(desk.home)
    other.authority_key.unlink()
    other.ensure([LOOPBACK])  # as if the home were another's
    with open_store(desk.home) as store, pytest.raises(StoreUnreachable, match="certificate"):
        store.manifests.names()


def test_with_somebody_elses_broker_devices_are_told_who_vouches_for_the_store(
    fresh_mosquitto: BrokerUnderTest, tmp_path: Path, start_agent: StartAgent
):
    home = tmp_path / "home"
    agent_url = fresh_mosquitto.login("phone")
    # Their users are ours too, as where both are made of one file.
    users = make_private_folder(home) / FILE_NAME
    users.write_bytes(fresh_mosquitto.credentials.path.read_bytes())
    with SecuredDesk(home, broker=str(fresh_mosquitto.orchestrator)) as desk:
        assert desk.system.outside == desk.system.broker.url
        start_agent(agent_url)
        desk.run_once(fresh_mosquitto.client)
        assert desk.system.orchestrator._settings.store_base == (
            f"https://{LOOPBACK}:{desk.system.store.port}"
            f"?authority={Certificates.of(home).fingerprint}"
        )


def test_off_loopback_tls_is_what_is_asked_for_by_saying_nothing():
    home = Path("home")
    assert not SystemSettings(home).secured
    assert not SystemSettings(home, "127.0.0.2").secured
    for host in ("0.0.0.0", "::", "192.168.1.10", "desk.example", ""):
        assert SystemSettings(home, host).secured
        assert not SystemSettings(home, host, tls=False).secured


def test_lan_and_an_address_are_not_both_given(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "crowdpipe", "up", "--lan", "--host", LOOPBACK, "--home", tmp_path],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 2
    assert "not both" in done.stderr
