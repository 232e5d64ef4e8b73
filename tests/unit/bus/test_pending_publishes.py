"""What waits to be published: windows, what a lost connection leaves, and what is measured."""

from __future__ import annotations

import pytest

from bus.connection_policy import ConnectionPolicy
from bus.link import Link
from bus.pending_publishes import PendingPublishes
from bus.sending_rate import SendingRate
from wire.errors import QueueFull
from wire.outbox import Message, Outbox

CONTROL = [Message("control", b"%d" % number) for number in range(4)]
FRAME = Message("data", bytes(100_000), control=False)


class Bench:
    def __init__(self, outbox: Outbox | None = None, **policy: object) -> None:
        self.link = Link()
        policy = {"max_in_flight": 3, **policy}
        made = ConnectionPolicy(**policy)  # type: ignore[arg-type]  # of whatever a test varies
        self.pending = PendingPublishes(made, SendingRate(self.link), outbox)
        self.mids = 0

    def publish(self, now: float = 0.0) -> list[Message]:
        """All that may go now."""
        published = []
        while (numbered := self.pending.take()) is not None:
            self.mids += 1
            if numbered.message.qos:
                self.pending.published(self.mids, numbered, now)
            published.append(numbered.message)
        return published


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_goes_before_there_is_a_connection(bench: Bench):
    bench.pending.put(CONTROL[0])
    assert bench.publish() == []
    bench.pending.connected(65_535)
    assert bench.publish() == [CONTROL[0]]


def test_no_more_is_in_flight_than_the_party_and_the_broker_allow(bench: Bench):
    bench.pending.connected(2)
    for message in CONTROL:
        bench.pending.put(message)
    assert bench.publish() == CONTROL[:2]
    assert bench.pending.acknowledged(1, 0.0) is CONTROL[0]
    assert bench.publish() == [CONTROL[2]]
    assert bench.pending.acknowledged(1, 0.0) is None
    assert not bench.pending.empty


def test_all_is_done_when_the_broker_has_acknowledged_all(bench: Bench):
    bench.pending.connected(9)
    for message in (*CONTROL[:2], Message("telemetry", b"x", qos=0)):
        bench.pending.put(message)
    assert not bench.pending.empty
    bench.publish()
    for mid in (1, 2):
        assert not bench.pending.empty
        bench.pending.acknowledged(mid, 0.0)
    assert bench.pending.empty


def test_what_was_said_and_not_acknowledged_is_said_again_but_frames_are_their_couriers():
    bench = Bench(repeats=True)
    bench.pending.connected(9)
    for message in (CONTROL[0], FRAME, CONTROL[1], FRAME, CONTROL[2]):
        bench.pending.put(message)
    bench.publish()
    bench.pending.acknowledged(1, 0.0)
    bench.pending.disconnected()
    bench.pending.put(FRAME)
    bench.pending.put(CONTROL[3])
    assert bench.publish() == []
    bench.pending.connected(9)
    assert bench.publish() == CONTROL[1:]
    assert bench.pending.nbytes == 0


def test_who_says_everything_anew_leaves_nothing_to_repeat():
    bench = Bench(repeats=False)
    bench.pending.connected(9)
    for message in (*CONTROL, FRAME):
        bench.pending.put(message)
    bench.publish()
    bench.pending.disconnected()
    bench.pending.put(CONTROL[0])
    bench.pending.put(FRAME)
    assert bench.pending.empty
    bench.pending.connected(9)
    assert bench.publish() == []


def test_who_says_everything_anew_may_say_early_what_belongs_to_the_coming_connection():
    bench = Bench(repeats=False)
    bench.pending.put(CONTROL[0], early=True)
    bench.pending.accepted()
    bench.pending.put(CONTROL[1])
    bench.pending.put(CONTROL[2], early=True)
    bench.pending.put(FRAME, early=True)
    bench.pending.connected(9)
    assert bench.publish() == [CONTROL[2]]


def test_there_is_room_for_a_frame_while_little_waits():
    bench = Bench(max_in_flight=1, ahead_nbytes=150_000)
    bench.pending.connected(9)
    room = []
    for _ in range(4):
        room.append(bench.pending.roomy)
        bench.pending.put(FRAME)
    assert room == [True, True, True, False]  # one is in flight, two wait


def test_at_the_outboxs_bound_nothing_more_is_taken():
    bench = Bench(outbox=Outbox(max_nbytes=150_000))
    bench.pending.connected(0)
    bench.pending.put(FRAME)
    with pytest.raises(QueueFull):
        bench.pending.put(FRAME)


def test_acknowledgements_tell_how_fast_the_link_is(bench: Bench):
    bench.pending.connected(9)
    bench.pending.put(CONTROL[0])
    bench.publish(now=1.0)
    bench.pending.acknowledged(1, 1.02)
    assert bench.link.rtt_s == pytest.approx(0.02)
    bench.pending.put(FRAME)
    bench.publish(now=2.0)
    bench.pending.acknowledged(2, 3.02)
    assert bench.link.nbytes_per_s == pytest.approx(100_000)


def test_what_was_on_its_way_when_a_connection_was_lost_is_not_measured(bench: Bench):
    bench.pending.connected(9)
    bench.pending.put(FRAME)
    bench.publish(now=1.0)
    bench.pending.disconnected()
    bench.pending.connected(9)
    assert bench.pending.acknowledged(1, 50.0) is None
    bench.pending.put(FRAME)
    bench.publish(now=100.0)
    bench.pending.acknowledged(2, 101.0)
    assert bench.link.nbytes_per_s == pytest.approx(100_000)
