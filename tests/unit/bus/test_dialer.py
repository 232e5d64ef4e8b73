"""Opening a socket keeps nobody waiting, and there is never more than one attempt."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bus import dialer
from bus.buffered_socket import BufferedSocket
from bus.connection_policy import DESK
from bus.dialer import Dialer
from bus.paho_client import Client, make_client
from wire.broker_url import parse_url
from wire.errors import BrokerUnreachable

LIMIT_S = 5.0
BROKER = parse_url("mqtt://name:secret@127.0.0.1:1")


class Opening:
    """Stands for the way to the broker: opens a socket, or fails, when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.go_on = threading.Event()
        self.error: OSError | None = None
        self.near: list[socket.socket] = []
        self.far: list[socket.socket] = []
        self.done = threading.Semaphore(0)
        monkeypatch.setattr(Client, "open_socket", self.open)
        self.client = make_client(BROKER, "us")
        self.dialer = Dialer(self.client, BROKER, DESK, self.done.release)

    def open(self, *_: Any) -> BufferedSocket:
        self.count += 1
        assert self.go_on.wait(LIMIT_S)
        if self.error is not None:
            raise self.error
        near, far = socket.socketpair()
        self.near.append(near)
        self.far.append(far)
        return BufferedSocket(near)

    def finish(self) -> None:
        self.go_on.set()
        assert self.done.acquire(timeout=LIMIT_S)

    def said(self) -> bytes:
        self.far[-1].settimeout(LIMIT_S)
        return self.far[-1].recv(100)


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> Iterator[Opening]:
    opening = Opening(monkeypatch)
    # socketpair knows no TCP options
    monkeypatch.setattr(opening.client, "on_socket_open", None)
    yield opening
    opening.dialer.close()
    for each in (*opening.near, *opening.far):
        each.close()


def test_until_the_socket_is_there_nothing_is_said_and_nobody_waits(opening: Opening) -> None:
    opening.dialer.begin(None, resumes=False)
    opening.dialer.proceed()
    assert opening.dialer.dials
    assert opening.client.socket() is None


def test_connect_is_said_over_the_socket_that_was_opened(opening: Opening) -> None:
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    opening.dialer.proceed()
    assert not opening.dialer.dials
    assert opening.said().startswith(b"\x10")  # CONNECT


def test_what_opening_raised_is_raised_once(opening: Opening) -> None:
    opening.error = ConnectionRefusedError("nobody there")
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    with pytest.raises(ConnectionRefusedError):
        opening.dialer.proceed()
    opening.dialer.proceed()


def test_an_attempt_under_way_serves_whoever_asks_again(opening: Opening) -> None:
    for _ in range(3):
        opening.dialer.begin(None, resumes=False)
    opening.finish()
    opening.dialer.proceed()
    assert opening.count == 1
    assert opening.said().startswith(b"\x10")


def test_a_socket_that_nobody_took_is_closed_when_the_next_is_asked_for(opening: Opening) -> None:
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    opening.dialer.begin(None, resumes=False)
    assert opening.done.acquire(timeout=LIMIT_S)
    assert opening.count == 2
    assert opening.near[0].fileno() == -1


def test_after_a_plain_attempt_without_an_answer_it_is_asked_whether_tls_is_spoken(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    def speaks_tls(host: str, port: int) -> bool:
        asked.append((host, port))
        return True

    monkeypatch.setattr(dialer, "speaks_tls", speaks_tls)
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    opening.dialer.proceed()
    assert not asked, "there was no attempt before"
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    with pytest.raises(BrokerUnreachable, match="speaks TLS alone"):
        opening.dialer.proceed()
    assert asked == [("127.0.0.1", 1)]
    opening.dialer.answered = True
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    opening.dialer.proceed()
    assert len(asked) == 1, "who answers speaks as we do"


def test_at_the_end_what_nobody_took_is_closed(opening: Opening) -> None:
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    opening.dialer.close()
    assert opening.near[0].fileno() == -1


def test_what_an_attempt_comes_to_after_the_end_is_closed(opening: Opening) -> None:
    opening.dialer.begin(None, resumes=False)
    opening.dialer.close()
    opening.finish()
    assert opening.near[0].fileno() == -1


def test_the_attempt_that_has_just_ended_is_not_waited_for(opening: Opening) -> None:
    opening.error = ConnectionRefusedError("nobody there")
    opening.dialer.begin(None, resumes=False)
    opening.finish()
    opening.dialer.begin(None, resumes=False)
    assert opening.done.acquire(timeout=LIMIT_S)
    assert opening.count == 2
