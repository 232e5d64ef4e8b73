"""Frames that come in parts: what takes room, what is promised, and who gives way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import Malformed, TooLarge
from wire.ids import ActivationId
from wire.parts import Part, Transfer, split
from wire.reassembly import GIVE_WAY_S, LAPSE_S, MAX_UNFINISHED_EACH, Reassembly

TRANSFER = Transfer(ActivationId("r", 1, 2), 0)
ROOM = 1000


def pieces(data: bytes, nbytes: int, transfer: Transfer = TRANSFER) -> list[Part]:
    return list(split(transfer, data, nbytes))


def frame_of(nbytes: int, part_nbytes: int = 50, item: int = 1) -> list[Part]:
    return pieces(bytes([item]) * nbytes, part_nbytes, Transfer(ActivationId("r", item, 2), 0))


def deliver(reassembly: Reassembly, sender: str, nbytes: int, now: float = 0.0) -> None:
    """A whole frame of that sender, so that it is known to deliver as much."""
    *_, whole = (reassembly.add(sender, part, now) for part in frame_of(nbytes, item=99))
    assert whole is not None


def test_unfinished_frames_take_no_more_than_the_bound() -> None:
    reassembly = Reassembly(100)
    for part in pieces(bytes(90), 30)[:2]:
        reassembly.add("a", part, 0.0)
    with pytest.raises(TooLarge, match="does not fit"):
        reassembly.add("b", pieces(bytes(60), 30)[0], 0.0)


def test_a_frame_that_stays_unfinished_is_given_up_aloud() -> None:
    reassembly = Reassembly(100, timeout_s=5)
    reassembly.add("a", pieces(bytes(60), 30)[0], 0.0)
    assert reassembly.wake_at() == 5
    reassembly.validate()
    assert reassembly.expire(4.9) == []
    (abandoned,) = reassembly.expire(5.0)
    assert (abandoned.sender, abandoned.transfer) == ("a", TRANSFER)
    assert reassembly.nbytes == 0


def test_parts_that_disagree_are_refused() -> None:
    reassembly = Reassembly(1000)
    reassembly.add("a", pieces(bytes(60), 30)[0], 0.0)
    with pytest.raises(Malformed, match="disagree"):
        reassembly.add("a", pieces(bytes(90), 30)[1], 0.0)


def test_the_same_activation_of_two_senders_is_kept_apart() -> None:
    reassembly = Reassembly(1000)
    first, second = pieces(bytes(60), 30)
    assert reassembly.add("a", first, 0.0) is None
    assert reassembly.add("b", second, 0.0) is None


def test_what_is_announced_takes_no_room() -> None:
    reassembly = Reassembly(ROOM)
    for item in range(20):
        liar = Part(Transfer(ActivationId("r", item, 2), 0), 0, 2, ROOM, b"x")
        assert reassembly.add("liar", liar, 0.0) is None
    deliver(reassembly, "b", 900)


def test_of_one_that_delivers_a_frame_that_was_let_in_comes_to_its_end() -> None:
    reassembly = Reassembly(ROOM)
    deliver(reassembly, "a", 600)
    first, *rest = frame_of(600)
    reassembly.add("a", first, 0.0)
    assert reassembly.nbytes == 600
    for item in range(2, 30):
        for part in frame_of(300, item=item):
            if reassembly.admits(f"s{item}", part, 1.0):
                reassembly.add(f"s{item}", part, 1.0)
    for part in rest:
        assert reassembly.admits("a", part, 1.5)
        whole = reassembly.add("a", part, 1.5)
    assert whole == bytes([1]) * 600


def test_one_that_delivers_is_let_in_only_when_all_of_its_frame_fits() -> None:
    reassembly = Reassembly(ROOM)
    for sender in "ab":
        deliver(reassembly, sender, 600)
    reassembly.add("a", frame_of(600)[0], 0.0)
    assert not reassembly.admits("b", frame_of(600)[0], 0.0)
    assert reassembly.admits("b", frame_of(300)[0], 0.0)


def test_a_promise_ends_when_nothing_comes_and_must_be_earned_anew() -> None:
    reassembly = Reassembly(ROOM)
    deliver(reassembly, "liar", ROOM)
    reassembly.add("liar", frame_of(ROOM)[0], 0.0)
    assert not reassembly.admits("b", frame_of(300)[0], LAPSE_S / 2)
    assert reassembly.admits("b", frame_of(300)[0], LAPSE_S)
    reassembly.add("liar", frame_of(ROOM, item=2)[0], LAPSE_S)
    assert reassembly.admits("b", frame_of(300)[0], LAPSE_S)
    reassembly.validate()


def test_where_parts_of_strangers_fill_the_room_the_longest_silent_gives_way_aloud() -> None:
    reassembly = Reassembly(ROOM)
    frames = {item: iter(frame_of(400, item=item)) for item in range(1, 6)}
    stuck = False
    while not stuck:
        stuck = True
        for item, parts in frames.items():
            part = next(parts, None)
            if part is not None and reassembly.admits(f"s{item}", part, float(item)):
                reassembly.add(f"s{item}", part, float(item))
                stuck = False
    assert reassembly.nbytes <= ROOM
    newcomer = frame_of(200, item=9)
    assert not reassembly.admits("new", newcomer[0], 1.0 + GIVE_WAY_S / 2)
    assert reassembly.admits("new", newcomer[0], 6.0 + GIVE_WAY_S)
    assert reassembly.wake_at() == float("-inf")
    assert [each.sender for each in reassembly.expire(6.0 + GIVE_WAY_S)] == ["s1"]
    reassembly.validate()


def test_a_part_that_is_here_already_proves_no_progress() -> None:
    reassembly = Reassembly(ROOM, timeout_s=5)
    first = frame_of(200)[0]
    for now in (0.0, 2.0, 4.0):
        reassembly.add("a", first, now)
    assert len(reassembly.expire(5.0)) == 1


def test_so_many_frames_of_one_sender_may_be_unfinished_and_others_are_let_in() -> None:
    reassembly = Reassembly(1 << 30)
    for item in range(MAX_UNFINISHED_EACH):
        transfer = Transfer(ActivationId("r", item, 0), 0)
        reassembly.add("a", pieces(b"ab", 1, transfer)[0], 0.0)
    with pytest.raises(TooLarge, match="are unfinished"):
        reassembly.add("a", pieces(b"ab", 1, Transfer(ActivationId("z", 0, 0), 0))[0], 0.0)
    reassembly.add("b", pieces(b"ab", 1)[0], 0.0)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.floats(0, 3)), max_size=200),
    st.lists(st.integers(60, 700), min_size=4, max_size=4),
)
def test_whatever_comes_no_more_is_here_than_fits(
    steps: list[tuple[int, int, float]], sizes: list[int]
) -> None:
    reassembly, now = Reassembly(ROOM), 0.0
    given = [list(frame_of(size, item=item + 1)) for item, size in enumerate(sizes)]
    left = [list(parts) for parts in given]
    for which, sender, later_s in steps:
        now += later_s
        parts = left[which]
        if parts and reassembly.admits(f"s{sender}", parts[0], now):
            reassembly.add(f"s{sender}", parts.pop(0), now)
        reassembly.validate()
        assert reassembly.nbytes <= ROOM
        reassembly.expire(now)


def test_a_frame_over_its_own_limit_is_refused_at_its_first_part() -> None:
    reassembly = Reassembly(1000, max_frame_nbytes=50)
    with pytest.raises(TooLarge, match="limit of 50 for a frame"):
        reassembly.add("a", pieces(bytes(60), 30)[0], 0.0)
    assert reassembly.nbytes == 0


def test_after_parts_that_disagree_the_frame_can_be_sent_anew() -> None:
    reassembly = Reassembly(1000)
    reassembly.add("a", pieces(bytes(60), 30)[0], 0.0)
    first, second, third = pieces(b"x" * 90, 30)
    with pytest.raises(Malformed, match="disagree"):
        reassembly.add("a", first, 0.0)
    assert reassembly.nbytes == 0
    arrived = [reassembly.add("a", part, 0.0) for part in (second, first, third)]
    assert arrived == [None, None, b"x" * 90]


def test_parts_longer_than_announced_are_refused() -> None:
    reassembly = Reassembly(1000)
    reassembly.add("a", Part(TRANSFER, 0, 3, 12, b"12345678"), 0.0)
    with pytest.raises(Malformed, match="longer than announced"):
        reassembly.add("a", Part(TRANSFER, 1, 3, 12, b"12345678"), 0.0)
    assert reassembly.nbytes == 0


def test_parts_that_do_not_add_up_are_refused() -> None:
    reassembly = Reassembly(1000)
    reassembly.add("a", Part(TRANSFER, 0, 2, 12, b"1234"), 0.0)
    with pytest.raises(Malformed, match="do not add up"):
        reassembly.add("a", Part(TRANSFER, 1, 2, 12, b"1234"), 0.0)
    assert reassembly.nbytes == 0


def test_a_forgotten_frame_gives_its_room_back() -> None:
    reassembly = Reassembly(100)
    reassembly.add("a", pieces(bytes(60), 30)[0], 0.0)
    reassembly.forget("a", TRANSFER)
    assert reassembly.nbytes == 0
    reassembly.add("b", pieces(bytes(60), 30)[0], 0.0)
