"""Frames on their way out: lanes, parts, credits, repeats, and nothing given up in silence."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus import outbound_frames
from bus.connection_policy import ConnectionPolicy
from bus.message_properties import fault_of_size
from bus.outbound_frames import BUNDLE_NBYTES, SMALL_NBYTES, UNHEARD_LIMIT
from bus.parcels import AWAY_MOST_S, AWAY_S
from tests.support.courier_side import (
    PACKET_NBYTES,
    TOPICS,
    KeptFrame,
    Side,
    exchange,
    frame,
    name,
    parts_in,
)
from wire.errors import QueueFull
from wire.outbox import Message
from wire.parts import (
    LARGE_PART_NBYTES,
    MAX_BUNDLED,
    PACKET_SLACK_NBYTES,
    PART_NBYTES,
    Credit,
    Transfer,
    encode_credit,
)

LARGE = 100_000


@pytest.fixture
def a() -> Side:
    return Side("a")


@pytest.fixture
def b() -> Side:
    return Side("b")


def test_a_small_frame_travels_whole(a: Side, b: Side):
    a.send("b", 0, 100)
    assert a.wakes == 1
    assert exchange(a, b) == 1
    assert b.kept == [frame(0, 100)]
    assert [(sender, header.activation) for sender, header in b.arrived] == [("a", name())]


def test_a_large_frame_travels_in_parts_two_ahead_of_their_credits(a: Side, b: Side):
    source = a.send("b", 0, LARGE)
    assert exchange(a, b) == 2
    assert b.kept == [frame(0, LARGE)]
    assert source.loads == 1


def test_large_frames_for_one_reader_go_one_after_another_and_are_each_read_once(a: Side, b: Side):
    sources = [a.send("b", item, LARGE) for item in range(5)]
    first = a.publish()
    assert {part.transfer.activation for part in parts_in(first)} == {name(0)}
    assert [source.loads for source in sources] == [1, 0, 0, 0, 0]
    b.take("a", first)
    a.take("b", b.publish())
    exchange(a, b)
    assert [header.activation.item for _, header in b.arrived] == [0, 1, 2, 3, 4]
    assert [source.loads for source in sources] == [1] * 5


def test_a_reader_without_credits_holds_up_nobody_else(a: Side):
    a.send("b", 0, LARGE)
    a.publish()
    a.send("b", 1, LARGE)
    a.send("b", 2, 100)
    a.send("c", 3, LARGE)
    readers = [message.topic for message in a.publish()]
    assert readers == [TOPICS.data("b", "a"), *[TOPICS.data("c", "a")] * 2]


@pytest.mark.parametrize(
    ("nbytes", "says"),
    [(100, ()), (5_000, (("part", "1/2"),))],
)
def test_every_message_says_what_it_carries(a: Side, nbytes: int, says: tuple[object, ...]):
    a.send("b", 7, nbytes)
    message = a.publish()[0]
    assert message.properties == (("run", "run"), ("item", "7"), ("cut", "1"), *says)
    assert message.content_type == "application/vnd.crowdpipe.frame"
    assert message.expiry_s == 300


def test_control_goes_before_frames():
    a = Side("a", policy=ConnectionPolicy(max_in_flight=16))
    for item in range(40):
        a.send("b", item, 2000)
    a.publish(16, acknowledge=False)
    a.pending.put(Message("control", b"state"))
    a.acknowledge(1)
    assert a.publish(1)[0].topic == "control"


def test_what_is_asked_twice_while_it_waits_is_sent_once_as_it_is_then(a: Side):
    a.send("b", 0, 100)
    a.send("b", 0, 100, attempt=3)
    assert [part.transfer.attempt for part in parts_in(a.publish())] == [3]


def test_what_is_asked_again_once_it_left_is_sent_again(a: Side):
    for _ in range(2):
        a.send("b", 0, 100)
        assert len(a.publish(acknowledge=False)) == 1


def test_too_many_that_wait_are_refused(a: Side, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outbound_frames, "QUEUE_LIMIT", 3)
    for item in range(3):
        a.send("b", item, 100)
    with pytest.raises(QueueFull):
        a.send("b", 3, 100)


def test_a_slow_link_costs_no_memory():
    a = Side("a", policy=ConnectionPolicy(max_in_flight=1, ahead_nbytes=1 << 20))
    a.connect(1 << 30)
    sources = [a.send("b", item, 200_000) for item in range(100)]
    a.publish(1, acknowledge=False)
    assert a.publish(acknowledge=False) == []
    assert a.pending.nbytes < 2 << 20
    assert sum(source.loads for source in sources) < 10


# --- what travels together ------------------------------------------------------------------------


def items_in(messages: list[Message]) -> list[list[int]]:
    """Of each message."""
    return [[part.transfer.activation.item for part in parts_in([each])] for each in messages]


def test_small_frames_that_wait_for_one_reader_share_a_message(a: Side, b: Side):
    for item in range(5):
        a.send("c" if item == 2 else "b", item, 100)
    published = a.publish()
    assert items_in(published) == [[0, 1, 3, 4], [2]]
    b.take("a", published[:1])
    assert b.kept == [frame(item, 100) for item in (0, 1, 3, 4)]
    assert [header.activation.item for _, header in b.arrived] == [0, 1, 3, 4]


def test_nothing_waits_for_company(a: Side):
    a.send("b", 0, 100)
    assert items_in(a.publish(acknowledge=False)) == [[0]]
    a.send("b", 1, 100)
    assert items_in(a.publish(acknowledge=False)) == [[1]]


def test_a_message_takes_no_more_than_so_many_frames_and_bytes():
    a = Side("a", packet_nbytes=1 << 30)
    for item in range(MAX_BUNDLED + 1):
        a.send("b", item, 100)
    assert [len(items) for items in items_in(a.publish())] == [MAX_BUNDLED, 1]
    for item in range(10):
        a.send("b", item, SMALL_NBYTES - 1000)
    published = a.publish()
    assert [len(items) for items in items_in(published)] == [4, 4, 2]
    assert max(len(message.payload) for message in published) <= BUNDLE_NBYTES


@pytest.mark.parametrize("nbytes", [10, 100, 1000])
def test_what_travels_together_fits_into_the_brokers_packets(a: Side, nbytes: int):
    for item in range(40):
        a.send("b", item, nbytes, run=f"{item:032}")
    for message in a.publish():
        assert fault_of_size(message, PACKET_NBYTES) is None
        assert len(message.payload) <= PACKET_NBYTES - PACKET_SLACK_NBYTES


def test_large_frames_have_a_message_of_their_own_and_keep_their_place():
    a = Side("a", packet_nbytes=1 << 30)
    for item, nbytes in enumerate((100, 100, SMALL_NBYTES, 100, 100)):
        a.send("b", item, nbytes)
    assert items_in(a.publish()) == [[0, 1], [2], [3, 4]]


def test_a_message_with_several_frames_says_of_each_run_and_cut_which_items(a: Side):
    for item in (4, 0, 1, 2):
        a.send("b", item, 100)
    a.send("b", 7, 100, run="other")
    (message,) = a.publish()
    assert message.properties == (
        ("run", "run"),
        ("item", "0-2,4"),
        ("cut", "1"),
        ("run", "other"),
        ("item", "7"),
        ("cut", "1"),
    )
    assert message.content_type == "application/vnd.crowdpipe.frame"
    assert message.expiry_s == 300


def test_what_shared_a_message_that_was_lost_is_sent_again(a: Side, b: Side):
    for item in range(3):
        a.send("b", item, 100)
    assert len(a.publish(acknowledge=False)) == 1
    a.courier.forget(name(1))
    a.disconnect()
    a.connect()
    again = a.publish()
    assert items_in(again) == [[0, 2]]
    a.disconnect()
    a.connect()
    assert a.publish() == []  # the broker has it


def test_what_shared_a_message_that_nobody_heard_goes_again_after_a_while(a: Side):
    for item in range(3):
        a.send("b", item, 100)
    heard_by_nobody(a, 10.0)
    a.courier.forget(name(1))
    assert not fill(a, 10.0 + AWAY_S / 2)
    assert fill(a, 10.0 + AWAY_S)
    assert items_in(a.publish()) == [[0, 2]]


def test_all_that_shared_messages_that_nobody_ever_heard_is_told(a: Side):
    for item in range(3):
        a.send("b", item, 100)
    now = 10.0
    while not a.given_up:
        heard_by_nobody(a, now)
        now += 2 * AWAY_MOST_S
        fill(a, now)
    assert a.given_up == [("b", name(item), "timed_out") for item in range(3)]


def test_what_was_let_go_or_cannot_be_read_costs_its_company_nothing(a: Side):
    sources = [a.send("b", item, 100) for item in range(5)]

    def fail() -> bytes:
        raise OSError("input/output error")

    sources[1].load = fail  # type: ignore[method-assign]  # as a broken disk would
    sources[3].data = None
    published = a.publish()
    assert [item for items in items_in(published) for item in items] == [0, 2, 4]
    assert a.given_up == [("b", name(1), "operator")]


def test_what_the_outbox_refuses_is_told_of_each(a: Side):
    a.pending._outbox.max_nbytes = 100
    for item in range(3):
        a.send("b", item, 100)
    assert a.publish() == []
    assert a.given_up == [("b", name(item), "queue_full") for item in range(3)]


# --- the size of parts ----------------------------------------------------------------------------


@pytest.mark.parametrize("packet_nbytes", [PACKET_NBYTES, 64 << 10, 128 << 10])
def test_parts_are_as_large_as_the_brokers_packets_allow(packet_nbytes: int):
    a, b = Side("a", packet_nbytes=packet_nbytes), Side("b", packet_nbytes=packet_nbytes)
    a.send("b", 0, 300_000)
    sizes = []
    while published := a.publish():
        sizes += [len(message.payload) for message in published]
        b.take("a", published)
        a.take("b", b.publish())
    assert b.kept == [frame(0, 300_000)]
    assert max(sizes) <= packet_nbytes - PACKET_SLACK_NBYTES + 100
    assert max(sizes) > packet_nbytes - PACKET_SLACK_NBYTES


@pytest.mark.parametrize(("measured", "most"), [(False, PART_NBYTES), (True, LARGE_PART_NBYTES)])
def test_a_fast_link_carries_larger_frames_in_one_part(measured: bool, most: int):
    a = Side("a", packet_nbytes=1 << 30)
    if measured:
        a.link.sent(1 << 20, 0.01)
    a.send("b", 0, most - 1000)
    a.send("b", 1, most + 1000)
    counts = {part.transfer.activation.item: part.count for part in parts_in(a.publish())}
    assert counts == {0: 1, 1: 2}


def test_a_broker_that_comes_back_with_smaller_packets_gets_smaller_parts():
    a, b = Side("a", packet_nbytes=64 << 10), Side("b")
    a.send("b", 0, LARGE)
    a.send("b", 1, LARGE)
    a.publish()
    a.disconnect()
    a.connect(16 << 10)
    published = a.publish()
    assert max(len(message.payload) for message in published) < 16 << 10
    b.take("a", published)
    a.take("b", b.publish())
    exchange(a, b)
    assert [header.activation.item for _, header in b.arrived] == [0, 1]


def test_a_frame_of_too_many_parts_is_given_up_and_told(a: Side):
    source = KeptFrame(frame())
    source.measure = lambda: (1 << 40, 0)  # type: ignore[method-assign]  # nobody has so much
    a.courier.send("b", name(), source)
    assert a.publish() == []
    assert a.given_up == [("b", name(), "too_large")]


# --- lost connections -----------------------------------------------------------------------------


def test_what_the_broker_did_not_acknowledge_is_sent_again_before_what_waits(a: Side):
    for item in range(3):
        a.send("b", item, 3000)  # two do not fit into one message
    assert len(a.publish(acknowledge=False)) == 3
    a.acknowledge(2)
    a.disconnect()
    a.send("b", 3, 100)
    assert a.pending.take() is None
    a.connect()
    again = parts_in(a.publish())
    assert [part.transfer.activation.item for part in again] == [0, 2, 3]


def test_parts_that_were_under_way_are_offered_again_once_after_a_reconnect(a: Side, b: Side):
    a.send("b", 0, LARGE)
    lost = parts_in(a.publish(acknowledge=False))
    a.disconnect()
    a.connect()
    again = a.publish()
    assert [part.index for part in parts_in(again)] == [part.index for part in lost]
    b.take("a", again)
    a.take("b", b.publish())
    exchange(a, b)
    assert b.kept == [frame(0, LARGE)]


def test_while_there_is_no_connection_nobody_is_given_up(a: Side):
    a.send("b", 0, LARGE)
    a.publish()
    a.disconnect()
    assert a.courier.wake_at() is None
    a.courier.expire(time.monotonic() + 1e6)
    assert a.given_up == []


def test_a_reader_that_returns_no_credit_is_given_up_in_the_end(a: Side):
    a.send("b", 0, LARGE)
    now = time.monotonic()
    for _ in range(20):
        a.publish()
        now += 60
        a.courier.expire(now)
    assert a.given_up == [("b", name(), "timed_out")]
    assert a.courier.wake_at() is None


def heard_by_nobody(a: Side, now: float) -> None:
    (message,) = a.publish(acknowledge=False)
    a.pending.acknowledged(a.published, 0.0)
    a.courier._outbound.heard_by_nobody(message, now)


def fill(a: Side, now: float) -> bool:
    """As the connection does, at a time that the test chooses."""
    return a.courier._outbound.fill(now)


def test_a_frame_that_found_no_listener_goes_again_after_a_while(a: Side, b: Side):
    a.send("b", 0, 100)
    heard_by_nobody(a, 10.0)
    assert a.courier.fill_at() == pytest.approx(10.0 + AWAY_S)
    assert not fill(a, 10.0 + AWAY_S / 2)
    assert fill(a, 10.0 + AWAY_S)
    b.take("a", a.publish())
    assert b.kept == [frame()]
    assert a.courier.fill_at() is None


def test_one_that_never_finds_a_listener_is_given_up_in_the_end(a: Side):
    a.send("b", 0, 100)
    now = 10.0
    while not a.given_up:
        heard_by_nobody(a, now)
        now += 2 * AWAY_MOST_S
        fill(a, now)
    assert a.given_up == [("b", name(), "timed_out")]
    assert now < 10.0 + (UNHEARD_LIMIT + 2) * 2 * AWAY_MOST_S


@pytest.mark.parametrize("how", ["forgotten", "run forgotten", "sent anew"])
def test_one_that_waits_for_its_listener_can_still_be_forgotten_or_asked_anew(a: Side, how: str):
    a.send("b", 0, 100)
    heard_by_nobody(a, 10.0)
    if how == "forgotten":
        a.courier.forget(name())
    elif how == "run forgotten":
        a.courier.forget_run("run")
    else:
        a.send("b", 0, 100)
    assert a.courier.fill_at() is None
    assert fill(a, 20.0) == (how == "sent anew")
    assert not fill(a, 20.0)


def test_credits_of_nothing_change_nothing(a: Side):
    credit = encode_credit(Credit(Transfer(name(), 0), 0, 2))
    a.courier.received(TOPICS.data("a", "b"), credit)
    assert a.publish() == []


# --- letting go -----------------------------------------------------------------------------------


def test_a_forgotten_frame_is_not_sent_whether_it_waits_or_is_on_its_way(a: Side):
    for item, nbytes in enumerate((100, LARGE, LARGE, 100)):
        a.send("b", item, nbytes)
        if item == 1:
            a.publish(acknowledge=False)
    for item in range(4):
        a.courier.forget(name(item))
    a.disconnect()
    a.connect()
    assert a.publish() == []


def test_forgetting_one_large_frame_lets_the_next_go(a: Side, b: Side):
    for item in range(2):
        a.send("b", item, LARGE)
    a.publish()
    a.courier.forget(name(0))
    exchange(a, b)
    assert [header.activation for _, header in b.arrived] == [name(1)]


def test_nothing_of_a_forgotten_run_is_sent(a: Side):
    for run in ("gone", "here"):
        a.send("b", 0, 100, run=run)
        a.send("b", 1, LARGE, run=run)
    a.courier.forget_run("gone")
    assert {part.transfer.activation.run for part in parts_in(a.publish())} == {"here"}


@pytest.mark.parametrize("nbytes", [100, LARGE])
def test_what_was_let_go_before_its_turn_is_skipped(a: Side, nbytes: int):
    gone = a.send("b", 0, nbytes)
    gone.data = None
    a.send("b", 1, 100)
    assert [part.transfer.activation for part in parts_in(a.publish())] == [name(1)]
    assert a.given_up == []


@pytest.mark.parametrize("nbytes", [100, LARGE])
def test_what_cannot_be_read_does_not_hold_up_what_follows(a: Side, nbytes: int):
    broken = a.send("b", 0, nbytes)

    def fail() -> bytes:
        raise OSError("input/output error")

    broken.load = fail  # type: ignore[method-assign]  # as a broken disk would
    a.send("b", 1, 100)
    assert [part.transfer.activation for part in parts_in(a.publish())] == [name(1)]
    assert a.given_up == [("b", name(0), "operator")]


DOINGS = st.lists(
    st.tuples(
        st.sampled_from(["small", "large", "forget", "cut", "publish", "lose", "exchange"]),
        st.integers(0, 5),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(DOINGS)
def test_whatever_happens_on_the_way_all_that_is_wanted_arrives(doings: list[tuple[str, int]]):
    a, b, wanted = Side("a"), Side("b"), set()
    for doing, item in doings:
        if doing in ("small", "large"):
            a.send("b", item, 100 if doing == "small" else 10_000)
            wanted.add(item)
        elif doing == "forget":
            a.courier.forget(name(item))
            wanted.discard(item)
        elif doing == "cut":
            a.disconnect()
            a.connect()
        elif doing == "publish":
            b.take("a", a.publish(item, acknowledge=False))
        elif doing == "lose":  # with the connection, all that the broker had
            a.publish(item, acknowledge=False)
            a.disconnect()
            b.publish()
            a.connect()
        else:
            a.take("b", b.publish())
            exchange(a, b)
    a.disconnect()
    a.connect()
    a.take("b", b.publish())
    exchange(a, b)
    now = time.monotonic()
    for _ in range(3):  # credits that were lost with a connection
        now += 11
        a.courier.expire(now)
        exchange(a, b)
    assert {header.activation.item for _, header in b.arrived} >= wanted
    assert a.given_up == []
