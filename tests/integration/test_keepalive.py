"""Large frames over a slow link, both ways and for longer than the keepalive: nobody is cut off."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks.faults.link import Links
from tests.support.broker import BrokerUnderTest, fresh_name
from tests.support.bus_parties import Listener, Parties
from tests.support.courier_side import KeptFrame, frame, name

KEEPALIVE_S = 2
NBYTES_PER_S = 400e3
FRAME_NBYTES = 2_000_000  # takes 2.5 times the keepalive, or parts of it would


def said(listener: Listener) -> list[str]:
    kinds = []
    while True:
        try:
            kinds.append(listener.told.get_nowait()[0])
        except queue.Empty:
            return kinds


@pytest.fixture
def parties() -> Iterator[Parties]:
    parties = Parties()
    yield parties
    for connection in parties.open:
        connection.close(0.1)


def test_a_large_transfer_leaves_the_connection_alive(
    mosquitto: BrokerUnderTest, parties: Parties, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bus.dialer.KEEPALIVE_S", KEEPALIVE_S)
    one, two = fresh_name(), fresh_name()
    with Links((mosquitto.host, mosquitto.port), (one,)) as links:
        links.set(one, nbytes_per_s=NBYTES_PER_S)
        far = replace(mosquitto.login(one), port=links.port(one))
        sender, told, _ = parties.with_frames(far, one)
        answerer, reader, _ = parties.with_frames(mosquitto.login(two), two)
        told.next("connected")
        reader.next("connected")
        sender.send(two, name(1), KeptFrame(frame(1, FRAME_NBYTES)))
        answerer.send(one, name(2), KeptFrame(frame(2, FRAME_NBYTES)))
        assert reader.next("kept") == frame(1, FRAME_NBYTES)
        assert told.next("kept") == frame(2, FRAME_NBYTES)
        assert "disconnected" not in said(told)
