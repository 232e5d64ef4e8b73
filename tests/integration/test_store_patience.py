"""The store against those who connect and do not go on: they are closed, and keep nobody out."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from model_store import http_protocol
from model_store.connection_limits import EACH, MOST
from model_store.remote import RemoteStore
from model_store.server import StoreServer
from wire.ids import digest_of
from wire.topics import Role

LIMIT_S = 20.0


def verify(user: str, secret: str) -> Role | None:
    roles: dict[str, Role] = {"orchestrator": "orchestrator", "evil": "device", "phone": "device"}
    return roles.get(user) if secret == "s" else None


def asked(user: str, digest: str) -> bytes:
    login = base64.b64encode(f"{user}:s".encode()).decode()
    head = f"GET /blobs/{digest} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\n\r\n"
    return head.encode()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreServer]:
    for name in ("HEAD_S", "BODY_S", "READ_S"):
        monkeypatch.setattr(http_protocol, name, 1.0)
    with StoreServer(tmp_path / "store", authorise=verify) as server:
        yield server


def reach(server: StoreServer, source: str = "127.0.0.1") -> socket.socket:
    address = ("127.0.0.1", server.port)
    return socket.create_connection(address, timeout=LIMIT_S, source_address=(source, 0))


def seconds_until_closed(link: socket.socket) -> float:
    begun = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while link.recv(1 << 16):
            pass
    return time.monotonic() - begun


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_one_that_never_finishes_its_request_is_closed(server: StoreServer, sent: bytes):
    with reach(server) as link:
        link.sendall(sent)
        assert 0.5 < seconds_until_closed(link) < LIMIT_S / 2


def send_bytes_until_closed(link: socket.socket) -> None:
    """One every tenth of a second, for the whole limit if nobody closes."""
    link.settimeout(0.1)
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        link.sendall(b"G")
        with contextlib.suppress(TimeoutError):
            if not link.recv(100):
                return


def test_one_that_sends_its_request_a_byte_at_a_time_is_closed_too(server: StoreServer):
    begun = time.monotonic()
    with reach(server) as link, contextlib.suppress(ConnectionError):
        send_bytes_until_closed(link)
    assert time.monotonic() - begun < LIMIT_S / 2


def test_one_that_stops_in_the_middle_of_a_body_is_closed(server: StoreServer):
    login = base64.b64encode(b"orchestrator:s").decode()
    with reach(server) as link:
        link.sendall(
            f"PUT /blobs/{digest_of(b'x' * 100)} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n"
            f"Authorization: Basic {login}\r\n\r\nhalf".encode()
        )
        assert seconds_until_closed(link) < LIMIT_S / 2


def test_one_that_does_not_read_its_answer_is_closed_and_one_that_does_is_not(server: StoreServer):
    data = bytes(40_000_000)
    digest = server.blobs.put([data]).digest
    tick, slow_nbytes, still_nbytes = threading.Event(), 0, 0
    with reach(server) as still, reach(server) as slow:
        for link in (still, slow):
            link.sendall(asked("orchestrator", digest))
        while slow_nbytes < len(data):
            slow_nbytes += len(slow.recv(1 << 20))
            tick.wait(0.05)
        with contextlib.suppress(ConnectionError):
            while some := still.recv(1 << 20):
                still_nbytes += len(some)
    assert still_nbytes < len(data)


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[StoreServer]:
    """With the limits of time as they are: nothing in these tests lasts so long."""
    with StoreServer(tmp_path / "patient", authorise=verify) as server:
        yield server


ADDRESSES = pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["127.0.0.7", "127.0.0.8"]], ids=["one address", "two"]
)


def fetch(server: StoreServer, user: str, digest: str) -> int:
    """Over a connection of its own, from 127.0.0.1."""
    with RemoteStore(server.base, user, "s") as store:
        return len(b"".join(store.blobs.read(digest)))


def assert_served(server: StoreServer, digest: str) -> None:
    begun = time.monotonic()
    assert [fetch(server, user, digest) for user in ("phone", "orchestrator") * 3] == [7] * 6
    assert time.monotonic() - begun < http_protocol.HEAD_S / 2, "waited until others were closed"


@ADDRESSES
@pytest.mark.parametrize("sent", [b"", b"GET /hea"], ids=["silent", "slow"])
def test_many_that_are_half_open_keep_nobody_out(
    patient: StoreServer, addresses: list[str], sent: bytes
):
    digest = patient.blobs.put([b"content"]).digest
    with ExitStack() as stack:
        for number in range(MOST + 100):
            link = stack.enter_context(reach(patient, addresses[number % len(addresses)]))
            link.sendall(sent)
        assert_served(patient, digest)


def test_many_that_one_secret_opened_and_left_idle_keep_nobody_out(patient: StoreServer):
    digest = patient.blobs.put([b"content"]).digest
    with ExitStack() as stack:
        for number in range(MOST + 100):
            link = stack.enter_context(reach(patient, ("127.0.0.1", "127.0.0.7")[number % 2]))
            link.sendall(asked("evil", digest))
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert_served(patient, digest)


@ADDRESSES
def test_one_secret_is_served_so_many_answers_that_it_does_not_read(
    patient: StoreServer, addresses: list[str]
):
    digest = patient.blobs.put([b"content"]).digest
    large = patient.blobs.put([bytes(20_000_000)]).digest
    with ExitStack() as stack:
        links = [
            stack.enter_context(reach(patient, addresses[number % len(addresses)]))
            for number in range(EACH + 20)
        ]
        for link in links:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.sendall(asked("evil", large))
        assert sum(is_closed_at_once(link) for link in links) == 20
        assert_served(patient, digest)


def is_closed_at_once(link: socket.socket) -> bool:
    """Rather than answered."""
    try:
        return not link.recv(1)
    except ConnectionError:
        return True


def test_a_download_goes_on_while_others_come_and_come(patient: StoreServer):
    data = bytes(20_000_000)
    digest = patient.blobs.put([data]).digest
    seen_nbytes = 0
    with reach(patient) as link, ExitStack() as stack:
        link.sendall(asked("phone", digest))
        seen_nbytes += len(link.recv(1000))
        for _ in range(MOST + 100):
            stack.enter_context(reach(patient))
        while seen_nbytes < len(data):
            some = link.recv(1 << 20)
            assert some, "it was closed"
            seen_nbytes += len(some)
