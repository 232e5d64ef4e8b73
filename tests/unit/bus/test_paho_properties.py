"""What paho reads of a message is the same whether or not it copies the payload on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt import _packet as packet
from paho.mqtt.enums import MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bus.paho_properties import KNOWN_COUNT, BriefProperties, spare_copies

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200)


@pytest.fixture(autouse=True, scope="module")
def paho_as_it_comes() -> Iterator[None]:
    known = packet.Properties
    packet.Properties = Properties  # type: ignore[misc]  # put back below
    yield
    packet.Properties = known  # type: ignore[misc]  # as it was


def published(payload: bytes, pairs: list[tuple[str, str]], content_type: str) -> bytes:
    """A PUBLISH at QoS 1 after its fixed header, as MQTT 5 lays it out (section 3.3)."""
    properties = Properties(PacketTypes.PUBLISH)
    properties.ContentType = content_type
    properties.MessageExpiryInterval = 300
    if pairs:
        properties.UserProperty = pairs
    topic = b"a/from/b"
    head = len(topic).to_bytes(2, "big") + topic + (7).to_bytes(2, "big")
    return head + properties.pack() + payload


@given(st.binary(max_size=3000), st.lists(st.tuples(text, text), max_size=5), text)
def test_properties_and_payload_are_read_alike(
    payload: bytes, pairs: list[tuple[str, str]], content_type: str
) -> None:
    data = published(payload, pairs, content_type)
    packet.Properties = Properties  # type: ignore[misc]  # paho as it comes
    plain = packet.decode_publish(0x32, bytearray(data), MQTTProtocolVersion.MQTTv5)
    assert spare_copies()
    brief = packet.decode_publish(0x32, bytearray(data), MQTTProtocolVersion.MQTTv5)
    assert (brief.topic, brief.mid, bytes(brief.payload)) == (b"a/from/b", 7, payload)
    assert brief[:5] == plain[:5]
    assert bytes(brief.payload) == bytes(plain.payload)
    assert str(brief.properties) == str(plain.properties)


def read(data: bytes) -> str:
    """What paho makes of it, or how it refuses it."""
    try:
        read = packet.decode_publish(0x32, bytearray(data), MQTTProtocolVersion.MQTTv5)
    except packet.MalformedPacket:
        return "malformed"
    return f"{read.mid} {bytes(read.payload)!r} {read.properties}"


@given(st.binary(max_size=60), st.data())
def test_what_is_cut_off_or_altered_is_read_or_refused_alike(rest: bytes, data: st.DataObject):
    whole = published(b"payload", [("run", "r")], "x/y")
    cut = data.draw(st.integers(12, len(whole)))
    packet.Properties = Properties  # type: ignore[misc]  # paho as it comes
    plain = read(whole[:cut] + rest)
    spare_copies()
    assert read(whole[:cut] + rest) == plain


def test_what_was_read_before_is_read_alike_and_is_not_another_messages() -> None:
    packet.Properties = Properties  # type: ignore[misc]  # paho as it comes
    spare_copies()
    first, second = (
        packet.decode_publish(0x32, bytearray(published(b"p", [], "x")), MQTTProtocolVersion.MQTTv5)
        for _ in range(2)
    )
    assert str(first.properties) == str(second.properties)
    first.properties.ContentType = "y"  # type: ignore[union-attr]  # MQTT 5 has them
    assert second.properties.ContentType == "x"  # type: ignore[union-attr]  # as above


@given(st.sets(st.binary(min_size=1, max_size=30), min_size=70, max_size=90))
def test_no_more_is_remembered_than_fits(tails: set[bytes]) -> None:
    for tail in tails:
        properties = BriefProperties(PacketTypes.PUBLISH)
        properties.CorrelationData = tail
        told = properties.pack()  # type: ignore[no-untyped-call]  # paho's, without types
        found, taken = BriefProperties(PacketTypes.PUBLISH).unpack(told + b"payload")
        assert (found.CorrelationData, taken) == (tail, len(told))
    assert len(BriefProperties._known) <= KNOWN_COUNT


def test_what_is_read_into_again_keeps_nothing_of_before() -> None:
    properties = BriefProperties(PacketTypes.PUBLISH)
    properties.ContentType = "x"
    properties.unpack(b"\x00")
    assert properties.isEmpty()  # type: ignore[no-untyped-call]  # as above


def test_it_is_done_once() -> None:
    packet.Properties = Properties  # type: ignore[misc]  # paho as it comes
    assert spare_copies()
    assert not spare_copies()
