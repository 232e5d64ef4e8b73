"""What is signed of an order, and how signatures and keys are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wire.errors import InvalidSettings
from wire.signed_orders import read_key, read_signature, signed_bytes, write_bytes

topics = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


@given(topics, st.binary(max_size=30), topics, st.binary(max_size=30))
def test_no_two_orders_have_the_same_bytes(
    topic: str, payload: bytes, other_topic: str, other: bytes
):
    same = signed_bytes(topic, payload) == signed_bytes(other_topic, other)
    assert same == ((topic, payload) == (other_topic, other))


def test_an_order_begins_with_what_it_is():
    assert signed_bytes("a/b", b"{}") == b"crowdpipe order 1\0a/b\0{}"


@given(st.binary(min_size=64, max_size=64))
def test_a_signature_is_read_as_it_was_written(data: bytes):
    assert read_signature(write_bytes(data)) == data


@given(st.text(max_size=100))
def test_what_is_no_signature_is_none(text: str):
    data = read_signature(text)
    assert data is None or len(data) == 64


def test_a_key_may_have_blanks_around_it():
    assert read_key(f" {write_bytes(bytes(32))}\n") == bytes(32)


@pytest.mark.parametrize("text", ["", "a", "ü" * 44, write_bytes(bytes(31)), "=" * 44, "A" * 44])
def test_what_is_no_key_is_refused_with_where_to_find_one(text: str):
    with pytest.raises(InvalidSettings, match="crowdpipe device add"):
        read_key(text)
