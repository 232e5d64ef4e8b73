"""Parts and credits: large frames in pieces, in any order, within bounds."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.credits import MOST_STALLS, CreditWindow
from wire.errors import CrowdpipeError, Malformed
from wire.ids import ActivationId
from wire.parts import (
    LARGE_PART_NBYTES,
    MAX_BUNDLED,
    MAX_PARTS,
    PART_NBYTES,
    Credit,
    Part,
    Transfer,
    decode,
    encode_bundle,
    encode_credit,
    encode_part,
    part_nbytes,
    pieces_of,
    split,
)
from wire.reassembly import Reassembly

TRANSFER = Transfer(ActivationId("r", 1, 2), 0)
OTHER = Transfer(ActivationId("r", 2, 2), 0)


def pieces(data: bytes, nbytes: int, transfer: Transfer = TRANSFER) -> list[Part]:
    return list(split(transfer, data, nbytes))


def credit(part: Part) -> Credit:
    return Credit(part.transfer, part.index, part.count)


def test_a_part_has_these_bytes() -> None:
    part = Part(TRANSFER, 0, 2, 5, b"abc")
    assert encode_part(part).hex() == (
        "435000017201000000020000000000000000000000020000000500000000000000616263"
    )


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


def test_parts_are_smaller_than_the_brokers_packets() -> None:
    assert part_nbytes(None) == PART_NBYTES
    assert part_nbytes(128_000) == 128_000 - 4096
    assert part_nbytes(2_000_000) == PART_NBYTES
    assert part_nbytes(128_000, 1e9) == 128_000 - 4096


def test_parts_are_larger_on_a_link_that_was_measured_to_be_fast() -> None:
    assert part_nbytes(None, 1e9) == LARGE_PART_NBYTES
    assert part_nbytes(2_000_000, 1e9) == LARGE_PART_NBYTES
    assert part_nbytes(None, 6e6) == PART_NBYTES


def test_two_parts_are_in_flight_until_credits_come() -> None:
    window = CreditWindow()
    parts = pieces(bytes(100), 10)
    assert window.offer("b", TRANSFER, iter(parts), 0.0) == parts[:2]
    assert window.credited("b", credit(parts[0]), 0.0) == parts[2:3]
    assert window.credited("b", credit(parts[0]), 0.0) == []


def test_frames_to_one_dependent_go_in_order_and_to_two_at_once() -> None:
    window = CreditWindow()
    first, second = pieces(bytes(20), 10), pieces(bytes(20), 10, OTHER)
    assert window.offer("b", TRANSFER, iter(first), 0.0) == first
    assert window.offer("b", OTHER, iter(second), 0.0) == []
    assert window.offer("c", OTHER, iter(second), 0.0) == second
    assert window.credited("b", credit(first[0]), 0.0) == second[:1]
    assert window.credited("b", credit(first[1]), 0.0) == second[1:]


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


def test_the_window_is_shared_by_the_frames_to_a_dependent() -> None:
    window = CreditWindow()
    first, second = pieces(bytes(30), 10), pieces(bytes(20), 10, OTHER)
    window.offer("b", TRANSFER, iter(first), 0.0)
    window.offer("b", OTHER, iter(second), 0.0)
    assert window.credited("b", credit(first[0]), 0.0) == first[2:]
    assert window.credited("b", credit(first[2]), 0.0) == second[:1]
    assert window.credited("b", credit(second[0]), 0.0) == second[1:]
    window.credited("b", credit(first[1]), 0.0)
    assert window.credited("b", credit(second[1]), 0.0) == []
    assert window.wake_at() is None


def test_a_frame_that_is_offered_twice_is_sent_once() -> None:
    window = CreditWindow()
    parts = pieces(bytes(20), 10)
    assert window.offer("b", TRANSFER, iter(parts), 0.0) == parts
    assert window.offer("b", TRANSFER, iter(parts), 0.0) == []


def test_a_frame_that_is_gone_when_its_turn_comes_makes_way() -> None:
    window = CreditWindow()
    parts = pieces(bytes(20), 10)
    assert window.offer("b", OTHER, iter(()), 0.0) == []
    assert window.offer("b", TRANSFER, iter(parts), 0.0) == parts


def test_nothing_stalls_while_there_is_no_connection() -> None:
    window = CreditWindow(stall_s=1)
    parts = pieces(bytes(20), 10)
    window.offer("b", TRANSFER, iter(parts), 0.0)
    window.disconnected()
    assert window.wake_at() is None
    assert window.expire(1000.0) == ([], [])
    assert window.reconnected(1000.0) == [("b", part) for part in parts]
    assert window.wake_at() == 1001.0


def test_a_frame_to_many_is_forgotten_by_all_of_them() -> None:
    window = CreditWindow()
    second = pieces(bytes(20), 10, OTHER)
    for to in ("b", "c"):
        window.offer(to, TRANSFER, iter(pieces(bytes(100), 10)), 0.0)
    window.offer("c", OTHER, iter(second), 0.0)
    assert window.forget(TRANSFER) == [("c", part) for part in second]
    window.validate()
    assert not window.knows("b", TRANSFER)
    assert window.knows("c", OTHER)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.sampled_from("bcd"))))
def test_the_window_stays_consistent_whatever_happens(steps: list[tuple[int, int, str]]) -> None:
    window = CreditWindow(stall_s=2)
    now = 0.0
    for kind, item, to in steps:
        transfer = Transfer(ActivationId("r", item, 1), 0)
        parts = pieces(bytes(10 * item), 10, transfer) if item > 1 else []
        if kind < 2:
            window.offer(to, transfer, iter(parts), now)
        elif kind == 2 and parts:
            window.credited(to, credit(parts[len(steps) % len(parts)]), now)
        elif kind == 3:
            window.forget(transfer, now)
        elif kind == 4:
            now += 1
            window.expire(now)
        else:
            window.reconnected(now)
        window.validate()


def test_a_credit_of_someone_else_or_of_another_attempt_changes_nothing() -> None:
    window = CreditWindow()
    parts = pieces(bytes(100), 10)
    window.offer("b", TRANSFER, iter(parts), 0.0)
    assert window.credited("c", credit(parts[0]), 0.0) == []
    later = Transfer(TRANSFER.activation, 1)
    assert window.credited("b", Credit(later, 0, 10), 0.0) == []


@given(st.lists(st.integers(11, 60), min_size=1, max_size=6), st.data())
def test_every_frame_arrives_whole_whatever_is_lost(sizes: list[int], data: Any) -> None:
    window = CreditWindow(stall_s=1)
    reassembly = Reassembly(1 << 20)
    now, in_flight, whole = 0.0, [], set()
    for item, size in enumerate(sizes):
        transfer = Transfer(ActivationId("r", item, 1), 0)
        in_flight += window.offer("b", transfer, split(transfer, bytes([item] * size), 10), now)
    # Two parts are lost at a stall at most, and a dependent is given up after so many stalls.
    part_losses, credit_losses = (data.draw(st.integers(0, MOST_STALLS // 2)) for _ in range(2))
    while window.wake_at() is not None:
        window.validate()
        reassembly.validate()
        assert len(set(map(encode_part, in_flight))) <= 2
        if not in_flight:
            now += 1
            again, given_up = window.expire(now)
            assert not given_up
            in_flight += [part for _, part in again]
        part = in_flight.pop(0)
        if part_losses and data.draw(st.booleans()):
            part_losses -= 1
            continue
        frame = reassembly.add("a", part, now)
        if frame is not None:
            whole.add((part.transfer.activation.item, bytes(frame)))
        if credit_losses and data.draw(st.booleans()):
            credit_losses -= 1
            continue
        in_flight += window.credited("b", credit(part), now)
    assert whole == {(item, bytes([item] * size)) for item, size in enumerate(sizes)}


@pytest.mark.parametrize(
    ("index", "count", "total", "data"),
    [
        (0, 0, 0, b""),  # no parts at all
        (2, 2, 9, b"abc"),  # an index beyond the count
        (0, MAX_PARTS + 1, 1 << 20, b"abc"),
        (0, 1, 4, b"abc"),  # a single part that is not the whole
        (0, 2, 3, b"abc"),  # leaves no byte for the other part
        (0, 2, 9, b""),
        (0, 2, 1 << 63, b""),
    ],
)
def test_parts_that_cannot_be_are_refused(index: int, count: int, total: int, data: bytes) -> None:
    with pytest.raises(Malformed):
        decode(encode_part(Part(TRANSFER, index, count, total, data)))


def test_a_credit_with_bytes_is_refused() -> None:
    with pytest.raises(Malformed, match="no bytes"):
        decode(encode_credit(Credit(TRANSFER, 0, 2)) + b"x")


@pytest.mark.parametrize("run", ["../x", "a/b", "#", "", "from"])
def test_a_part_of_a_run_that_could_not_stand_in_a_topic_is_refused(run: str) -> None:
    part = Part(Transfer(ActivationId(run, 0, 0), 0), 0, 1, 1, b"x")
    with pytest.raises(Malformed, match="a run called"):
        decode(encode_part(part))


def test_a_single_part_is_not_copied() -> None:
    payload = encode_part(pieces(b"whole", 99)[0])
    part = decode(payload)
    assert isinstance(part, Part)
    whole = Reassembly(100).add("a", part, 0.0)
    assert isinstance(whole, memoryview)
    assert whole.obj is payload


@given(st.binary(max_size=300), st.integers(0, 100), st.integers(1, 255))
def test_a_flipped_byte_gives_a_part_or_a_typed_error(data: bytes, place: int, change: int) -> None:
    payload = bytearray(encode_part(pieces(data, 64)[0]))
    payload[place % len(payload)] ^= change
    with contextlib.suppress(CrowdpipeError):
        said = decode(payload)
        if isinstance(said, Part):
            Reassembly(1 << 16).add("a", said, 0.0)


# --- bundles --------------------------------------------------------------------------------------


def wholes(*frames: bytes) -> list[Part]:
    return [
        pieces(data or b"x", 1 << 20, Transfer(ActivationId("r", i, 2), 0))[0]
        for i, data in enumerate(frames)
    ]


def bundle_of(*said: bytes) -> bytes:
    """With pieces that need not be parts."""
    lengths = b"".join(len(each).to_bytes(4, "little") for each in said)
    return b"CP\2" + bytes([len(said)]) + lengths + b"".join(said)


def test_a_bundle_has_these_bytes() -> None:
    parts = wholes(b"abc", b"de")
    assert encode_bundle(parts) == bundle_of(*map(encode_part, parts))


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=MAX_BUNDLED))
def test_what_travels_together_is_what_would_have_come_alone(frames: list[bytes]) -> None:
    parts = wholes(*frames)
    assert [decode(piece) for piece in pieces_of(encode_bundle(parts))] == parts


@given(st.lists(st.binary(max_size=80), min_size=1, max_size=MAX_BUNDLED))
def test_the_pieces_of_a_bundle_are_not_copied_nor_judged_together(said: list[bytes]) -> None:
    payload = bundle_of(*said)
    found = [memoryview(piece) for piece in pieces_of(payload)]
    assert [bytes(piece) for piece in found] == said
    assert all(piece.obj is payload for piece in found)


@given(st.binary(max_size=80))
def test_what_is_no_bundle_is_one_piece(data: bytes) -> None:
    for payload in (data, encode_part(wholes(data)[0]), encode_credit(Credit(TRANSFER, 0, 2))):
        assert payload.startswith(b"CP\2") or pieces_of(payload) == (payload,)


def test_too_many_do_not_travel_together() -> None:
    for count in (0, MAX_BUNDLED + 1):
        with pytest.raises(ValueError, match="together"):
            encode_bundle(wholes(*[b"x"] * count))
        with pytest.raises(Malformed):
            pieces_of(bundle_of(*[b"x"] * count))


def test_a_bundle_in_a_bundle_is_refused() -> None:
    outer = bundle_of(encode_bundle(wholes(b"abc", b"de")))
    with pytest.raises(Malformed, match="neither"):
        decode(pieces_of(outer)[0])


def test_every_bundle_that_is_cut_short_or_too_long_is_refused() -> None:
    payload = encode_bundle(wholes(b"abc", b"de"))
    for length in range(4, len(payload)):
        with pytest.raises(Malformed):
            pieces_of(payload[:length])
    with pytest.raises(Malformed):
        pieces_of(payload + b"x")


def test_lengths_that_a_bundle_does_not_have_take_no_memory() -> None:
    with pytest.raises(Malformed):
        pieces_of(b"CP\2\x20" + b"\xff" * 4 * MAX_BUNDLED)


@given(
    st.lists(st.binary(max_size=60), min_size=1, max_size=5), st.integers(0), st.integers(1, 255)
)
def test_a_flipped_byte_in_a_bundle_gives_parts_or_typed_errors(
    frames: list[bytes], place: int, change: int
) -> None:
    payload = bytearray(encode_bundle(wholes(*frames)))
    payload[place % len(payload)] ^= change
    with contextlib.suppress(CrowdpipeError):
        for piece in pieces_of(payload):
            with contextlib.suppress(CrowdpipeError):
                decode(piece)
