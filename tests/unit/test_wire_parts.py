"""Parts and credits: large frames in pieces, in any order, within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.credits import MOST_STALLS, CreditWindow
from wire.errors import CrowdpipeError, Malformed, TooLarge
from wire.ids import ActivationId
from wire.parts import (
    PART_NBYTES,
    Credit,
    Part,
    Reassembly,
    Transfer,
    decode,
    encode_credit,
    encode_part,
    part_nbytes,
    split,
)

TRANSFER = Transfer(ActivationId("r", 1, 2), 0)
OTHER = Transfer(ActivationId("r", 2, 2), 0)


def pieces(data: bytes, nbytes: int, transfer: Transfer = TRANSFER) -> list[Part]:
    return list(split(transfer, data, nbytes))


def credit(part: Part) -> Credit:
    return Credit(part.transfer, part.index, part.count)


def test_a_part_has_these_bytes() -> None:
    part = Part(TRANSFER, 0, 2, 5, b"abc")
    assert encode_part(part).hex() == (
        "43500001" "72" "01000000" "02000000" "00000000" "00000000" "02000000"
        "0500000000000000" "616263"
    )  # fmt: skip


@given(st.binary(max_size=300), st.integers(1, 64), st.randoms())
def test_parts_in_any_order_and_twice_make_the_frame(data: bytes, size: int, chance: Any) -> None:
    sent = pieces(data, size)
    chance.shuffle(sent)
    reassembly = Reassembly(1 << 20)
    wholes = []
    for part in sent:
        for _ in range(1 if len(sent) == 1 else 2):
            arrived = decode(encode_part(part))
            assert isinstance(arrived, Part)
            whole = reassembly.add("a", arrived, 0.0)
            if whole is not None:
                wholes.append(bytes(whole))
                break
    assert wholes == [data]
    assert reassembly.nbytes == 0


@given(st.binary(max_size=80))
def test_random_payloads_are_refused(data: bytes) -> None:
    for candidate in (data, b"CP\0" + data):
        try:
            decode(candidate)
        except CrowdpipeError:
            continue
        assert candidate.startswith(b"CP")


def test_every_truncated_head_is_refused() -> None:
    data = encode_part(pieces(b"whole", 99)[0])
    for length in range(len(data)):
        with pytest.raises(Malformed):
            decode(data[:length])


def test_a_credit_comes_back_as_it_was() -> None:
    sent = Credit(TRANSFER, 3, 7)
    assert decode(encode_credit(sent)) == sent


def test_unfinished_frames_take_no_more_than_the_bound() -> None:
    reassembly = Reassembly(100)
    reassembly.add("a", pieces(bytes(60), 30)[0], 0.0)
    with pytest.raises(TooLarge, match="does not fit"):
        reassembly.add("b", pieces(bytes(60), 30)[0], 0.0)


def test_a_frame_that_stays_unfinished_is_given_up_aloud() -> None:
    reassembly = Reassembly(100, timeout_s=5)
    reassembly.add("a", pieces(bytes(60), 30)[0], 0.0)
    assert reassembly.wake_at() == 5
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


def test_parts_are_smaller_than_the_brokers_packets() -> None:
    assert part_nbytes(None) == PART_NBYTES
    assert part_nbytes(128_000) == 128_000 - 4096
    assert part_nbytes(2_000_000) == PART_NBYTES


def test_two_parts_are_in_flight_until_credits_come() -> None:
    window = CreditWindow()
    parts = pieces(bytes(100), 10)
    assert window.offer("b", TRANSFER, iter(parts), 0.0) == parts[:2]
    assert window.credited("b", credit(parts[0]), 0.0) == parts[2:3]
    assert window.credited("b", credit(parts[0]), 0.0) == []


def test_frames_to_one_dependent_go_one_after_another_and_to_two_at_once() -> None:
    window = CreditWindow()
    first, second = pieces(bytes(20), 10), pieces(bytes(20), 10, OTHER)
    assert window.offer("b", TRANSFER, iter(first), 0.0) == first
    assert window.offer("b", OTHER, iter(second), 0.0) == []
    assert window.offer("c", OTHER, iter(second), 0.0) == second
    window.credited("b", credit(first[0]), 0.0)
    assert window.credited("b", credit(first[1]), 0.0) == second


def test_lost_credits_do_not_stall() -> None:
    window = CreditWindow(stall_s=10)
    parts = pieces(bytes(100), 10)
    window.offer("b", TRANSFER, iter(parts), 0.0)
    assert window.expire(9.0) == ([], [])
    assert window.expire(10.0) == ([("b", part) for part in parts[:2]], [])
    assert window.reconnected(11.0) == [("b", part) for part in parts[:2]]


def test_a_dependent_that_never_answers_is_given_up_aloud() -> None:
    window = CreditWindow(stall_s=1)
    window.offer("b", TRANSFER, iter(pieces(bytes(100), 10)), 0.0)
    now, given_up = 0.0, []
    for _ in range(MOST_STALLS + 1):
        now += 1
        given_up = window.expire(now)[1]
    assert [entry.transfer for entry in given_up] == [TRANSFER]
    assert window.wake_at() is None


def test_a_forgotten_frame_makes_way_for_the_next() -> None:
    window = CreditWindow()
    second = pieces(bytes(20), 10, OTHER)
    window.offer("b", TRANSFER, iter(pieces(bytes(100), 10)), 0.0)
    window.offer("b", OTHER, iter(second), 0.0)
    assert window.forget(TRANSFER) == [("b", part) for part in second]


@given(st.lists(st.integers(11, 60), min_size=1, max_size=6), st.data())
def test_every_frame_arrives_whole_whatever_is_lost(sizes: list[int], data: Any) -> None:
    window = CreditWindow(stall_s=1)
    reassembly = Reassembly(1 << 20)
    now, flying, whole = 0.0, [], set()
    for item, size in enumerate(sizes):
        transfer = Transfer(ActivationId("r", item, 1), 0)
        flying += window.offer("b", transfer, split(transfer, bytes([item] * size), 10), now)
    lossy = data.draw(st.integers(0, 40))
    while window.wake_at() is not None:
        if not flying:
            now += 1
            flying += [part for _, part in window.expire(now)[0]]
        part = flying.pop(0)
        assert sum(1 for other in flying if other.transfer == part.transfer) <= 2 * 2
        if lossy and data.draw(st.booleans()):
            lossy -= 1
            continue
        frame = reassembly.add("a", part, now)
        if frame is not None:
            whole.add((part.transfer.activation.item, len(frame)))
        flying += window.credited("b", credit(part), now)
    assert {item for item, _ in whole} == set(range(len(sizes)))
