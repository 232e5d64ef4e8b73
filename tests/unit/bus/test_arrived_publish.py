"""What is read of a PUBLISH is what paho reads of it, and its payload is not copied."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import _packet as packet
from paho.mqtt.enums import MQTTProtocolVersion

from bus.arrived_publish import ArrivedPublish, Unreadable
from bus.packed_properties import PackedProperties
from wire.outbox import Message

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200)


def published(payload: bytes, pairs: list[tuple[str, str]], qos: int = 1) -> bytes:
    """After its fixed header, as MQTT 5 lays it out (section 3.3)."""
    message = Message("", b"", expiry_s=300, content_type="x/y", properties=tuple(pairs))
    topic = "a/from/ü".encode()
    number = (7).to_bytes(2, "big") if qos else b""
    head = len(topic).to_bytes(2, "big") + topic + number
    return head + PackedProperties(message).pack() + payload


@given(
    st.binary(max_size=300),
    st.lists(st.tuples(text, text), max_size=5),
    st.integers(0, 1),
    st.booleans(),
)
def test_it_is_what_paho_reads(
    payload: bytes, pairs: list[tuple[str, str]], qos: int, retain: bool
):
    data, first = bytearray(published(payload, pairs, qos)), 0x30 | qos << 1 | retain
    came = ArrivedPublish(first, data)
    plain = packet.decode_publish(first, data, MQTTProtocolVersion.MQTTv5)
    assert (came.topic.encode(), came.mid) == (plain.topic, plain.mid)
    assert (came.qos, came.retain) == (plain.qos, plain.retain)
    assert bytes(came.payload) == bytes(plain.payload) == payload


def test_the_payload_is_not_copied():
    data = bytearray(published(b"payload", []))
    assert ArrivedPublish(0x32, data).payload.obj is data


def test_what_is_cut_short_before_its_payload_is_refused():
    data = published(b"", [("run", "r")])
    for length in range(len(data)):
        with pytest.raises(Unreadable):
            ArrivedPublish(0x32, data[:length])


def test_properties_without_an_end_to_their_length_are_refused():
    with pytest.raises(Unreadable):
        ArrivedPublish(0x30, b"\x00\x01a" + b"\xff" * 9)


@given(st.binary(max_size=40), st.integers(0x30, 0x3D))
def test_whatever_comes_is_read_or_refused(data: bytes, first: int):
    with contextlib.suppress(Unreadable):
        assert len(ArrivedPublish(first, data).payload) <= len(data)
