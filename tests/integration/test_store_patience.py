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
from model_store.connection_limits import STRANGERS_EACH
from model_store.remote import RemoteStore
from model_store.server import StoreServer
from wire.ids import digest_of
from wire.topics import Role

LIMIT_S = 20.0


def verify(user: str, secret: str) -> Role | None:
    return "orchestrator" if (user, secret) == ("orchestrator", "s") else None


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
    login = base64.b64encode(b"orchestrator:s").decode()
    ask = f"GET /blobs/{digest} HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {login}\r\n\r\n"
    tick, slow_nbytes, still_nbytes = threading.Event(), 0, 0
    with reach(server) as still, reach(server) as slow:
        for link in (still, slow):
            link.sendall(ask.encode())
        while slow_nbytes < len(data):
            slow_nbytes += len(slow.recv(1 << 20))
            tick.wait(0.05)
        with contextlib.suppress(ConnectionError):
            while some := still.recv(1 << 20):
                still_nbytes += len(some)
    assert still_nbytes < len(data)


def test_many_that_are_half_open_keep_nobody_out(server: StoreServer):
    with ExitStack() as stack, RemoteStore(server.base, "orchestrator", "s") as store:
        for _ in range(600):
            stack.enter_context(reach(server, "127.0.0.2"))
        assert store.blobs.put([b"content"]).digest == digest_of(b"content")


def test_a_stranger_has_so_many_at_once_and_no_more(tmp_path: Path):
    with StoreServer(tmp_path / "store", authorise=verify) as server, ExitStack() as stack:
        links = [stack.enter_context(reach(server)) for _ in range(STRANGERS_EACH + 8)]
        closed = 0
        for link in links:
            link.settimeout(0.2)
            try:
                closed += not link.recv(1)
            except ConnectionError:
                closed += 1
            except TimeoutError:
                continue
        assert closed == 8
