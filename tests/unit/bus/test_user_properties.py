"""A user property is found as paho reads it, whatever stands around it; no bytes are believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bus.arrived_publish import ArrivedPublish
from bus.listener import InboundMessage
from bus.packed_properties import PackedProperties
from bus.user_properties import user_property
from wire.outbox import Message

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=200)


def everything(pairs: list[tuple[str, str]]) -> Properties:
    said = Properties(PacketTypes.PUBLISH)
    said.PayloadFormatIndicator = 1
    said.MessageExpiryInterval = 77
    said.ContentType = "application/json"
    said.ResponseTopic = "where"
    said.CorrelationData = b"\x26\x00\x01"
    said.SubscriptionIdentifier = 300
    said.TopicAlias = 3
    if pairs:
        said.UserProperty = pairs
    return said


@given(st.lists(st.tuples(text, text), max_size=4), text)
def test_the_first_of_its_name_is_found_among_all_others(pairs: list[tuple[str, str]], value: str):
    pairs = [pair for pair in pairs if pair[0] != "wanted"]
    packed = everything([*pairs, ("wanted", value), ("wanted", "later")]).pack()
    assert user_property(packed, "wanted") == value
    assert user_property(everything(pairs).pack(), "wanted") is None


@given(st.binary(max_size=60))
def test_any_bytes_say_something_or_nothing(packed: bytes):
    assert user_property(packed, "") is None or b"\x26" in packed


def test_one_that_is_cut_short_says_nothing():
    packed = everything([("wanted", "value")]).pack()
    for length in range(len(packed)):
        assert user_property(packed[:length], "wanted") is None


def test_it_is_found_in_a_message_that_came_and_in_one_that_paho_has_read():
    said = Message("", b"", content_type="x/y", properties=(("ours", "value"),))
    packet = b"\x00\x01a\x00\x07" + PackedProperties(said).pack() + b"payload"
    came = InboundMessage.of(ArrivedPublish(0x32, packet))
    assert (came.payload, user_property(came.properties, "ours")) == (b"payload", "value")

    class Read:
        topic, payload, retain = "a", b"payload", False
        properties = everything([("ours", "value")])

    assert user_property(InboundMessage.of(Read).properties, "ours") == "value"
    Read.properties = None  # type: ignore[assignment]  # as of MQTT 3.1.1
    assert user_property(InboundMessage.of(Read).properties, "ours") is None
