"""A message's properties, the packet that is made of it, and whether a broker has room for that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client, MQTTMessage, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bus import paho_client
from bus.message_properties import fault_of_size, properties_of
from bus.packed_properties import PackedProperties
from wire.outbox import Message

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50)


def packet_of(message: Message, client: Client | None = None) -> bytes:
    """The PUBLISH that paho makes of it, or `client`."""
    client = client or Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    made: list[bytes] = []
    client._packet_queue = lambda _c, packet, *_: made.append(bytes(packet))  # type: ignore # in its place
    client._sock = object()  # type: ignore[assignment]  # it only wants to know that there is one
    topic: Any = message.topic.encode()
    told: Any = PackedProperties(message)
    client._send_publish(7, topic, message.payload, message.qos, message.retain, properties=told)
    client._sock = None
    return made[0]


def our_client() -> paho_client.Client:
    return paho_client.Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)


MESSAGES = st.builds(
    Message,
    topic=st.just("to/from/ü"),
    payload=st.binary(max_size=300),
    qos=st.integers(0, 1),
    retain=st.booleans(),
    expiry_s=st.none() | st.integers(0, 2**32 - 1),
    content_type=st.none() | text,
    properties=st.lists(st.tuples(text, text), max_size=3).map(tuple),
)


@given(MESSAGES)
def test_the_packet_is_the_one_that_paho_makes(message: Message):
    assert packet_of(message, our_client()) == packet_of(message)


@given(st.integers(0, 70_000))
def test_packets_of_every_length_are_those_that_paho_makes(nbytes: int):
    message = Message("t", bytes(nbytes))
    assert packet_of(message, our_client()) == packet_of(message)


@given(MESSAGES)
def test_paho_reads_of_a_message_what_it_says(message: Message):
    read = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho has no types here
    read.unpack(PackedProperties(message).pack())  # type: ignore[no-untyped-call]  # as above
    assert getattr(read, "ContentType", None) == (message.content_type or None)
    assert getattr(read, "MessageExpiryInterval", None) == message.expiry_s
    assert tuple(getattr(read, "UserProperty", ())) == message.properties


@given(st.integers(0, 300_000), st.lists(st.tuples(text, text), max_size=3), text)
def test_what_passes_fits_and_what_does_not_is_told(
    nbytes: int, pairs: list[tuple[str, str]], content_type: str
):
    message = Message(
        "to/from/ü", bytes(nbytes), expiry_s=5, content_type=content_type, properties=tuple(pairs)
    )
    needs = len(packet_of(message))
    assert fault_of_size(message, None) is None
    assert fault_of_size(message, needs + 16) is None
    fault = fault_of_size(message, needs - 1)
    assert fault is not None
    assert message.topic in str(fault)


def test_what_a_will_says_is_in_its_properties():
    message = Message("t", b"", expiry_s=7, content_type="a/b", properties=(("run", "r"),))
    properties = properties_of(message)
    assert properties.ContentType == "a/b"
    assert properties.MessageExpiryInterval == 7
    assert properties.UserProperty == [("run", "r")]


def test_where_paho_is_made_otherwise_inside_it_makes_the_packet(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(paho_client, "_KNOWN_INSIDE", False)
    message = Message("t", b"payload", content_type="a/b")
    assert packet_of(message, our_client()) == packet_of(message)


def test_a_message_is_read_alike_whoever_reads_it_and_a_fault_in_who_takes_it_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
):
    told: list[tuple[str, bytes]] = []

    def take(_client: Any, _data: Any, message: Any) -> None:
        told.append((message.topic, bytes(message.payload)))
        raise ZeroDivisionError

    for known in (True, False):
        monkeypatch.setattr(paho_client, "_KNOWN_INSIDE", known)
        client = our_client()
        client.suppress_exceptions = True
        client.on_message = take
        client._in_packet["command"] = 0x30
        client._in_packet["packet"] = bytearray(b"\x00\x01t\x00payload")
        assert client._handle_publish() == 0
    assert told == [("t", b"payload")] * 2


@pytest.mark.parametrize(
    "said", [b"\x00\x01", b"\x00\x01\x00", b"\x00\x01\x10", b"\x00\x01\x87\x00"]
)
@pytest.mark.parametrize("known", [True, False])
def test_an_acknowledgement_is_read_alike_whoever_reads_it(
    monkeypatch: pytest.MonkeyPatch, said: bytes, known: bool
):
    monkeypatch.setattr(paho_client, "_KNOWN_INSIDE", known)
    told: list[tuple[int, int, bool]] = []
    client = our_client()
    client.on_publish = lambda _c, _d, mid, code, _p: told.append(
        (mid, code.value, code.is_failure)
    )
    packet_of(Message("t", b"x"), client)
    for mid in (1, 2):
        client._out_messages[mid] = MQTTMessage(mid)
    client._in_packet["command"] = 0x40
    for _ in range(2):  # the second is of nothing
        client._in_packet["packet"] = bytearray(said)
        assert client._handle_pubackcomp("PUBACK") == 0
    code = said[2] if len(said) > 2 else 0
    assert told == [(1, code, code >= 128)]
    assert list(client._out_messages) == [2]
