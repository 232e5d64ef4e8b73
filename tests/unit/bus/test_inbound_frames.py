"""Frames on their way in: parts, credits, bounds, and nothing lost in silence."""

from __future__ import annotations

import time

import pytest

from bus.inbound_frames import REASSEMBLY_S
from tests.support.courier_side import TOPICS, Side, credits_in, frame, name
from wire.errors import DiskFull
from wire.frame_head import FrameHead
from wire.parts import Part, Transfer, encode_bundle, encode_part, split

BOUND = 1 << 20
PART_NBYTES = 64 << 10
SENDER = "clients/me/s1"


@pytest.fixture
def b() -> Side:
    return Side("b", bound_nbytes=BOUND)


def parts_of(data: bytes, item: int = 0) -> list[Part]:
    return list(split(Transfer(name(item), 0), data, PART_NBYTES))


def test_parts_in_any_order_become_the_frame_and_each_is_credited(b: Side):
    data = frame(0, 3 * PART_NBYTES)
    parts = parts_of(data)
    b.receive(SENDER, *reversed(parts))
    assert b.kept == [data]
    assert [(sender, header.activation) for sender, header in b.arrived] == [(SENDER, name())]
    indices = [credit.index for credit in credits_in(b.publish())]
    assert indices == [part.index for part in reversed(parts)]


def test_a_small_frame_needs_no_credit(b: Side):
    b.receive(SENDER, *parts_of(frame()))
    assert len(b.arrived) == 1
    assert b.publish() == []


def test_at_the_bound_parts_get_no_credit_until_there_is_room(b: Side):
    b.held_nbytes = BOUND
    parts = parts_of(frame(0, 2 * PART_NBYTES))
    b.receive(SENDER, parts[0])
    assert b.publish() == []
    assert b.lost == []
    b.held_nbytes = 0
    b.receive(SENDER, *parts)
    assert len(b.arrived) == 1


def test_what_a_stranger_announces_keeps_nobody_out(b: Side):
    b.receive("liar", Part(Transfer(name(1), 0), 0, 2, BOUND, b"x" * 36))
    b.receive(SENDER, *parts_of(frame(0, BOUND - 2 * PART_NBYTES)))
    assert [sender for sender, _ in b.arrived] == [SENDER]


def test_at_the_bound_a_small_frame_is_told_as_lost(b: Side):
    b.held_nbytes = BOUND
    b.receive(SENDER, *parts_of(frame()))
    assert b.lost == [(SENDER, name(), "queue_full")]


def test_a_frame_that_can_never_fit_is_told_once_and_its_sender_comes_to_an_end(b: Side):
    parts = parts_of(frame(0, 2 * BOUND))
    b.receive(SENDER, *parts)
    assert b.lost == [(SENDER, name(), "too_large")]
    assert len(b.publish()) == len(parts)


def test_what_its_keeper_cannot_keep_is_told_as_lost(b: Side):
    b.full = DiskFull("no room left")
    b.receive(SENDER, *parts_of(frame()))
    assert b.lost == [(SENDER, name(), "disk_full")]
    assert b.arrived == []


def test_a_frame_that_stays_incomplete_is_told_as_lost(b: Side):
    b.receive(SENDER, parts_of(frame(0, 2 * PART_NBYTES))[0])
    assert b.courier.wake_at() is not None
    b.courier.expire(time.monotonic() + REASSEMBLY_S + 1)
    assert b.lost == [(SENDER, name(), "timed_out")]
    assert b.courier.wake_at() is None


def test_how_long_a_frame_may_stay_incomplete_can_be_told(b: Side):
    b.courier.limit_reassembly(5.0)
    b.receive(SENDER, parts_of(frame(0, 2 * PART_NBYTES))[0])
    b.courier.expire(time.monotonic() + 6)
    assert b.lost == [(SENDER, name(), "timed_out")]


def test_a_late_repeat_of_a_part_is_no_lost_frame(b: Side):
    parts = parts_of(frame(0, 2 * PART_NBYTES))
    b.receive(SENDER, *parts, parts[0])
    b.courier.expire(time.monotonic() + REASSEMBLY_S + 1)
    assert len(b.arrived) == 1
    assert b.lost == []


def test_senders_with_frames_of_one_name_are_told_apart(b: Side):
    data = frame(0, 2 * PART_NBYTES)
    for part in parts_of(data):
        for sender in ("one", "two"):
            b.receive(sender, part)
    assert [sender for sender, _ in b.arrived] == ["one", "two"]
    assert b.kept == [data, data]


def test_a_frame_under_a_false_name_is_told_as_lost(b: Side):
    data = frame(item=7)
    b.receive(SENDER, Part(Transfer(name(0), 0), 0, 1, len(data), data))
    assert b.lost == [(SENDER, name(0), "malformed")]
    assert b.kept == []


@pytest.mark.parametrize("payload", [b"", b"garbage", bytes(100)])
def test_what_is_neither_part_nor_credit_is_refused(b: Side, payload: bytes):
    b.courier.received(TOPICS.data("b", SENDER), payload)
    assert (b.arrived, b.lost, b.publish()) == ([], [], [])


# --- what came together ---------------------------------------------------------------------------


def test_a_bad_piece_costs_the_others_nothing(b: Side):
    good = [part for item in range(4) for part in parts_of(frame(item), item)]
    payload = bytearray(encode_bundle(good))
    at = payload.index(encode_part(good[1]))
    payload[at] ^= 1  # it is no part any more
    at = payload.index(encode_part(good[2]))
    payload[at + len(encode_part(good[2])) - len(good[2].data)] ^= 1  # and this no frame
    b.courier.received(TOPICS.data("b", SENDER), payload)
    assert [header.activation for _, header in b.arrived] == [name(0), name(3)]
    assert b.kept == [frame(0), frame(3)]
    assert b.lost == [(SENDER, name(2), "malformed")]


def test_a_fault_of_the_keepers_at_one_piece_costs_the_others_nothing(b: Side):
    keep, faults = b.keep, [ZeroDivisionError()]

    def fail_once(sender: str, header: FrameHead, data: bytes) -> None:
        if faults:
            raise faults.pop()
        keep(sender, header, data)

    b.keep = fail_once  # type: ignore[method-assign]  # as no keeper should
    payload = encode_bundle([part for item in range(3) for part in parts_of(frame(item), item)])
    b.courier.received(TOPICS.data("b", SENDER), payload)
    assert b.kept == [frame(1), frame(2)]


def test_at_the_bound_of_what_came_together_what_has_no_room_is_told_as_lost(b: Side):
    b.held_nbytes = BOUND - len(frame())
    keep = b.keep

    def counted(sender: str, header: FrameHead, data: bytes) -> None:
        keep(sender, header, data)
        b.held_nbytes += len(data)

    b.keep = counted  # type: ignore[method-assign]  # as a keeper does
    payload = encode_bundle([part for item in range(2) for part in parts_of(frame(item), item)])
    b.courier.received(TOPICS.data("b", SENDER), payload)
    assert b.kept == [frame(0)]
    assert b.lost == [(SENDER, name(1), "queue_full")]


def test_a_bundle_whose_lengths_are_wrong_is_refused_whole(b: Side):
    payload = encode_bundle(parts_of(frame())) + b"x"
    b.courier.received(TOPICS.data("b", SENDER), payload)
    assert b.arrived == b.lost == []
