"""Blobs as blocks on their way: whole again whatever they hold, and nothing else is believed."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import CrowdpipeError, Malformed
from wire.packed import (
    BLOCK_NBYTES,
    CONTENT_TYPE,
    LARGEST_NBYTES_PER_S,
    UNKNOWN_NBYTES_PER_S,
    Unpacking,
    accept,
    accepted_link,
    pack,
)

LINK = 6e6


def weights(count: int, seed: int = 3) -> bytes:
    """fp32, spread as weights are."""
    random_ = random.Random(seed)
    return struct.pack(f"<{count}f", *(random_.gauss(0.0, 0.04) for _ in range(count)))


def unpacked(data: bytes, step: int = 1 << 16) -> bytes:
    unpacking = Unpacking()
    pieces = [
        bytes(block)
        for start in range(0, len(data), step)
        for block in unpacking.feed(data[start : start + step])
    ]
    assert unpacking.whole
    return b"".join(pieces)


def packed(data: bytes, link: float = LINK) -> bytes:
    return b"".join(pack([data], link))


def test_weights_take_a_sixth_less() -> None:
    data = weights(100_000)
    assert len(packed(data)) < 0.86 * len(data)
    assert unpacked(packed(data)) == data


def test_halves_take_less_too() -> None:
    random_ = random.Random(4)
    data = struct.pack("<100000e", *(random_.gauss(0.0, 0.04) for _ in range(100_000)))
    assert len(packed(data)) < 0.95 * len(data)
    assert unpacked(packed(data)) == data


def test_what_does_not_shrink_grows_by_some_bytes_a_block() -> None:
    data = random.Random(5).randbytes(3 * BLOCK_NBYTES + 5)
    assert len(packed(data)) == len(data) + 4 * 9
    assert unpacked(packed(data)) == data


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=300),
            st.integers(0, 9).map(lambda seed: weights(40_000, seed)),
            st.integers(0, 200_000).map(bytes),
        ),
        max_size=4,
    ),
    st.sampled_from([1e5, 6e6, 19e6]),
    st.integers(1000, 300_000),
)
def test_what_was_packed_comes_out_again(chunks: list[bytes], link: float, step: int) -> None:
    assert unpacked(b"".join(pack(chunks, link)), step) == b"".join(chunks)


@given(st.integers(0, 1 << 30), st.integers(0, 255))
def test_an_altered_byte_gives_other_bytes_or_an_error_and_never_more(at: int, byte: int) -> None:
    whole = weights(20_000)
    data = bytearray(packed(whole))
    data[at % len(data)] = byte
    unpacking = Unpacking()
    try:
        blocks = [bytes(block) for block in unpacking.feed(bytes(data))]
    except CrowdpipeError:
        return
    assert all(len(block) <= BLOCK_NBYTES for block in blocks)


@pytest.mark.parametrize(
    "block",
    [
        struct.pack("<BII", 0, BLOCK_NBYTES + 1, BLOCK_NBYTES + 1),
        struct.pack("<BII", 0, 0, 0),
        struct.pack("<BII", 0, 100, 99) + bytes(99),
        struct.pack("<BII", 4, 100, 100) + bytes(100),
        struct.pack("<BII", 3, 99, 50) + bytes(50),
        struct.pack("<BII", 4, 99, 50) + bytes(50),
        struct.pack("<BII", 4, 100, 7) + bytes(7),
        struct.pack("<BII", 2, 100, 30) + bytes(30),
        struct.pack("<BII", 2, 40, 30) + struct.pack("<BIBI", 0, 10, 0, 10) + bytes(20),
        struct.pack("<BII", 2, 40, 30) + struct.pack("<BIBI", 2, 10, 0, 10) + bytes(20),
        struct.pack("<BII", 2, 40, 30) + struct.pack("<BIBI", 1, 10, 0, 10) + bytes(20),
    ],
    ids=lambda block: block[:9].hex(),
)
def test_a_block_that_contradicts_itself_is_refused_before_it_is_unpacked(block: bytes) -> None:
    with pytest.raises(Malformed):
        list(Unpacking().feed(block))


def test_a_block_that_is_not_whole_waits() -> None:
    data = packed(weights(1000))
    unpacking = Unpacking()
    assert list(unpacking.feed(data[:-1])) == []
    assert not unpacking.whole
    assert bytes(next(iter(unpacking.feed(data[-1:])))) == weights(1000)
    assert unpacking.whole


@pytest.mark.parametrize(
    ("header", "link"),
    [
        (accept(7.2e6), 7.2e6),
        (accept(None), UNKNOWN_NBYTES_PER_S),
        (CONTENT_TYPE, UNKNOWN_NBYTES_PER_S),
        (accept(LARGEST_NBYTES_PER_S), None),
        (f"{CONTENT_TYPE};link=0", None),
        (f"{CONTENT_TYPE};link=fast", None),
        ("*/*", None),
        ("", None),
    ],
)
def test_a_store_packs_for_who_accepts_it_on_a_slow_link(header: str, link: float | None) -> None:
    assert accepted_link(header) == link
