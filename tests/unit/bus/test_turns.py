"""Turns of a connection wait while there is nothing to do, and end it with whoever is no broker."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from bus.connection import Connection
from bus.courier import Courier
from bus.link import Link
from tests.support.bus_parties import LIMIT_S, TOPICS, Listener
from wire.broker_url import NO_BROKER_THERE, parse_url


class DueCourier(Courier):
    """Has frames that are to be sent now."""

    def fill_at(self) -> float | None:
        return 0.0


@pytest.fixture
def mute() -> Iterator[socket.socket]:
    """Accepts, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connection_to(port: int, listener: Listener) -> Connection:
    link = Link()
    courier = DueCourier(TOPICS, "us", listener, listener, link=link)
    broker = parse_url(f"mqtt://us:secret@127.0.0.1:{port}")
    return Connection(broker, "us", (), (), listener, courier=courier, link=link)


def test_frames_that_are_due_turn_nothing_while_the_broker_has_not_answered(
    mute: socket.socket,
) -> None:
    connection = connection_to(mute.getsockname()[1], Listener())
    connection.open()
    until, turns = time.monotonic() + 0.5, 0
    while (left_s := until - time.monotonic()) > 0:
        connection.turn(left_s)
        turns += 1
    assert turns < 20
    connection.close(0.0)


@pytest.mark.parametrize(
    "said", [b"<!DOCTYPE HTML>", b"220 mail.example ESMTP", b"HTTP/1.0 400 Bad"]
)
def test_who_answers_in_text_is_no_broker(mute: socket.socket, said: bytes) -> None:
    listener = Listener()
    connection = connection_to(mute.getsockname()[1], listener)
    connection.open()
    until = time.monotonic() + LIMIT_S
    answered = False
    while listener.told.empty():
        assert time.monotonic() < until
        connection.turn(0.05)
        if not answered:
            mute.settimeout(LIMIT_S)
            near, _ = mute.accept()
            near.sendall(said + b" and so on" * 50)
            answered = True
    assert listener.next("disconnected") == NO_BROKER_THERE
    near.close()
    connection.close(0.0)
