"""Malformed messages can be said again, are of every kind, and what they did becomes rows."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.crowd import packets
from benchmarks.hostile.malformations import KINDS, malformed
from benchmarks.hostile.samples import RUN, Message, Target, of_client, of_device
from benchmarks.hostile.service import Served
from benchmarks.subjects.hostile import Found, _rows
from wire.messages.events import EventBatch
from wire.messages.requests import Request
from wire.parts import decode as read_piece
from wire.parts import pieces_of
from wire.record import decode

TARGET = Target("a" * 64, 6, ("phone-1", "phone-2"))
DEVICE, CLIENT = of_device("liar", TARGET), of_client("stranger", "one", TARGET)


def test_what_is_malformed_was_right_before() -> None:
    for said in (*DEVICE, *CLIENT):
        if said.topic.endswith("/events"):
            assert decode(EventBatch, said.payload).events
        elif said.topic.endswith("/requests"):
            decode(Request, said.payload)
        elif not said.is_json:
            for piece in pieces_of(said.payload):
                assert read_piece(piece).transfer.activation.run == RUN


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_made_of_every_message_and_sent(kind: str) -> None:
    random = Random(1)
    for messages in (DEVICE, CLIENT):
        for said in messages:
            made = KINDS[kind](said, random, messages)
            assert packets.publish(made.topic, made.payload, number=1, retain=made.retain)


def test_the_same_seed_makes_the_same_messages() -> None:
    def some() -> list[Message]:
        random = Random(5)
        return [malformed(DEVICE, random) for _ in range(200)]

    assert some() == some()
    assert len({said.payload for said in some()}) > 100


def served(run_s: float, *, wrong: int = 0, errors: tuple[str, ...] = ()) -> Served:
    return Served([run_s] * 3, [0.01], 36, 36, wrong, list(errors))


def test_times_are_compared_within_rounds() -> None:
    found = Found(
        calm=[served(0.1), served(0.2)],
        attacked=[served(0.11), served(0.22)],
        beside=[served(0.1), served(0.22)],
        grown={"orchestrator": 1_000_000, "mosquitto": 0, "phone-1": 17_000_000},
    )
    rows = {row.name: row for row in _rows(found)}
    assert rows["hostile.time"].value == pytest.approx(1.1)
    assert rows["hostile.time"].met
    assert rows["hostile.time_beside"].value == pytest.approx(1.05)
    assert rows["hostile.memory_orchestrator"].met
    assert rows["hostile.memory_agents"].met is False


def test_a_wrong_result_and_an_error_are_told() -> None:
    grown = {"orchestrator": 0, "mosquitto": 0, "phone-1": 0}
    bad = served(0.1, wrong=1, errors=("TimedOut: it waits",))
    found = Found([served(0.1)], [bad], [served(0.1)], grown=grown)
    rows = {row.name: row for row in _rows(found)}
    assert rows["hostile.exact"].met is False
    assert rows["hostile.errors"].met is False
    assert "it waits" in rows["hostile.errors"].note
