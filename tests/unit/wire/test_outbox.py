"""The outbox: two lanes, a window, a bound."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from wire.errors import QueueFull
from wire.outbox import Message, Numbered, Outbox


def data(number: int, nbytes: int = 1) -> Message:
    return Message(f"d/{number}", bytes(nbytes), control=False)


def control(number: int) -> Message:
    return Message(f"c/{number}", b"x")


def topics(released: list[Numbered]) -> list[str]:
    return [each.message.topic for each in released]


def test_nothing_leaves_while_disconnected() -> None:
    outbox = Outbox()
    assert outbox.put(control(1)) == []
    assert topics(outbox.connected(False)) == ["c/1"]


def test_control_goes_before_data() -> None:
    outbox = Outbox()
    for message in (data(1), data(2), control(1)):
        outbox.put(message)
    assert topics(outbox.connected(False)) == ["c/1", "d/1", "d/2"]


def test_no_more_is_in_flight_than_the_window() -> None:
    outbox = Outbox(max_inflight=2)
    outbox.connected(False)
    first = outbox.put(data(1)) + outbox.put(data(2)) + outbox.put(data(3))
    assert topics(first) == ["d/1", "d/2"]
    assert topics(outbox.acknowledged(first[0].token)) == ["d/3"]


def test_messages_without_acknowledgement_take_no_place_in_flight() -> None:
    outbox = Outbox(max_inflight=1)
    outbox.connected(False)
    released = [outbox.put(Message("t", b"x", qos=0)) for _ in range(3)]
    assert list(map(topics, released)) == [["t"]] * 3


def test_a_newer_state_replaces_one_that_still_waits() -> None:
    outbox = Outbox()
    for payload in (b"old", b"new"):
        outbox.put(Message("state", payload, retain=True, coalesce=True))
    (only,) = outbox.connected(False)
    assert only.message.payload == b"new"


def test_a_state_that_finds_no_room_leaves_the_older_one_waiting() -> None:
    outbox = Outbox(max_nbytes=8)
    outbox.put(Message("state", b"old", coalesce=True))
    with pytest.raises(QueueFull, match="0 bytes wait"):
        outbox.put(Message("state", bytes(100), coalesce=True))
    assert [each.message.payload for each in outbox.connected(False)] == [b"old"]


def test_a_newer_state_does_not_overtake_what_came_between() -> None:
    outbox = Outbox()
    for message in (Message("state", b"old", coalesce=True), control(1)):
        outbox.put(message)
    outbox.put(Message("state", b"new", coalesce=True))
    assert topics(outbox.connected(False)) == ["c/1", "state"]
    assert outbox.nbytes == 0


def test_a_message_that_must_not_be_replaced_is_not() -> None:
    outbox = Outbox()
    outbox.put(Message("t", b"event"))
    outbox.put(Message("t", b"state", coalesce=True))
    assert len(outbox.connected(False)) == 2


def test_acknowledgements_from_before_a_lost_session_free_nothing() -> None:
    outbox = Outbox(max_inflight=1)
    outbox.connected(False)
    (first,) = outbox.put(data(1))
    outbox.put(data(2))
    outbox.disconnected()
    (again,) = outbox.connected(False)
    assert outbox.acknowledged(first.token) == []
    assert topics(outbox.acknowledged(again.token)) == ["d/2"]


def test_at_the_bound_data_is_refused_and_control_has_a_reserve() -> None:
    outbox = Outbox(max_nbytes=8)
    outbox.put(data(1, 8))
    with pytest.raises(QueueFull, match="does not fit"):
        outbox.put(data(2))
    outbox.put(control(1))


def test_what_a_lost_session_had_in_flight_is_handed_out_again_in_order() -> None:
    outbox = Outbox()
    outbox.connected(False)
    outbox.put(data(1))
    outbox.put(data(2))
    outbox.disconnected()
    outbox.put(data(3))
    assert topics(outbox.connected(False)) == ["d/1", "d/2", "d/3"]


def test_what_a_kept_session_had_in_flight_is_left_to_the_library() -> None:
    outbox = Outbox()
    outbox.connected(False)
    (sent,) = outbox.put(data(1))
    outbox.disconnected()
    assert outbox.connected(True) == []
    assert not outbox.empty
    outbox.acknowledged(sent.token)
    assert outbox.empty


def test_data_can_be_forgotten_wherever_it_is_and_control_stays():
    outbox = Outbox(max_inflight=2)
    outbox.connected(session_present=False)
    control = [Message("control", b"%d" % number) for number in range(2)]
    data = [Message("data", bytes(10), control=False) for _ in range(2)]
    for message in (control[0], data[0], control[1], data[1]):
        outbox.put(message)
    outbox.disconnected()
    outbox.forget_data()
    assert outbox.nbytes == len(control[1].payload)
    again = outbox.connected(session_present=False)
    assert [each.message for each in again] == control


def test_nothing_is_left_of_what_was_cleared():
    outbox = Outbox(max_inflight=1)
    outbox.connected(session_present=False)
    for control in (True, True, False):
        outbox.put(Message("any", bytes(10), control=control))
    outbox.disconnected()
    outbox.clear()
    assert (outbox.empty, outbox.nbytes) == (True, 0)
    assert outbox.connected(session_present=False) == []


class AnyOrder(RuleBasedStateMachine):
    """Whatever happens, nothing is lost, lanes keep their order, the window holds."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox(max_inflight=3)
        self.online = False
        self.number = 0
        self.flying: list[Numbered] = []
        self.delivered: dict[bool, list[int]] = {True: [], False: []}

    @rule(is_control=st.booleans())
    def put(self, is_control: bool) -> None:
        self.number += 1
        message = Message(str(self.number), b"x", control=is_control)
        self._publish(self.outbox.put(message))

    @precondition(lambda self: self.flying and self.online)
    @rule()
    def acknowledge_the_oldest(self) -> None:
        oldest = self.flying.pop(0)
        self.delivered[oldest.message.control].append(int(oldest.message.topic))
        self._publish(self.outbox.acknowledged(oldest.token))

    @precondition(lambda self: not self.online)
    @rule(session_present=st.booleans())
    def connect(self, session_present: bool) -> None:
        self.online = True
        if not session_present:
            self.flying = []
        self._publish(self.outbox.connected(session_present))

    @precondition(lambda self: self.online)
    @rule()
    def disconnect(self) -> None:
        self.online = False
        self.outbox.disconnected()

    def _publish(self, released: list[Numbered]) -> None:
        assert self.online or not released
        self.flying += released

    @invariant()
    def the_window_holds(self) -> None:
        assert len(self.flying) <= 3

    @invariant()
    def it_is_consistent(self) -> None:
        self.outbox.validate()

    def teardown(self) -> None:
        if not self.online:
            self.connect(False)
        while self.flying:
            self.acknowledge_the_oldest()
        assert sorted(self.delivered[True] + self.delivered[False]) == list(
            range(1, self.number + 1)
        )
        assert self.outbox.empty
        for lane in self.delivered.values():
            assert lane == sorted(lane)


TestAnyOrder = AnyOrder.TestCase


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.booleans()), max_size=30))
def test_of_each_replaceable_topic_the_newest_waits(puts: list[tuple[int, int, bool]]) -> None:
    outbox = Outbox(max_nbytes=100)
    newest: dict[str, bytes] = {}
    for number, nbytes, is_control in puts:
        message = Message(f"state/{number}", bytes(nbytes), coalesce=True, control=is_control)
        with contextlib.suppress(QueueFull):
            outbox.put(message)
            newest[message.topic] = message.payload
        outbox.validate()
    waited = {each.message.topic: each.message.payload for each in outbox.connected(False)}
    assert waited == newest


def test_data_that_is_forgotten_leaves_control_where_it_was() -> None:
    outbox = Outbox(max_inflight=2)
    outbox.connected(False)
    for message in (data(1), control(1), data(2), Message("d", b"x", coalesce=True, control=False)):
        outbox.put(message)
    outbox.put(control(2))
    outbox.disconnected()
    outbox.forget_data()
    outbox.validate()
    assert topics(outbox.connected(False)) == ["c/1", "c/2"]


def test_a_cleared_outbox_is_empty() -> None:
    outbox = Outbox()
    outbox.put(Message("t", b"state", coalesce=True))
    outbox.clear()
    outbox.validate()
    assert outbox.empty
    assert outbox.nbytes == 0
