"""A message's properties, and whether a broker's packets have room for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from bus.message_properties import fault_of_size, properties_of
from wire.outbox import Message

text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50)


def packet_of(message: Message) -> int:
    """Bytes of the PUBLISH that paho makes of it."""
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    made: list[int] = []
    client._packet_queue = lambda _c, packet, *_: made.append(len(packet))  # type: ignore # in its place
    client._sock = object()  # type: ignore[assignment]  # it only wants to know that there is one
    topic, properties = message.topic.encode(), properties_of(message)
    client._send_publish(1, topic, message.payload, 1, False, properties=properties)
    client._sock = None
    return made[0]


@given(st.integers(0, 300_000), st.lists(st.tuples(text, text), max_size=3), text)
def test_what_passes_fits_and_what_does_not_is_told(
    nbytes: int, pairs: list[tuple[str, str]], content_type: str
):
    message = Message(
        "to/from/ü", bytes(nbytes), expiry_s=5, content_type=content_type, properties=tuple(pairs)
    )
    needs = packet_of(message)
    assert fault_of_size(message, None) is None
    assert fault_of_size(message, needs + 16) is None
    fault = fault_of_size(message, needs - 1)
    assert fault is not None
    assert message.topic in str(fault)


@pytest.mark.parametrize("will", [False, True])
def test_what_a_message_says_is_in_its_properties(will: bool):
    message = Message("t", b"", expiry_s=7, content_type="a/b", properties=(("run", "r"),))
    properties = properties_of(message, will=will)
    assert properties.ContentType == "a/b"
    assert properties.MessageExpiryInterval == 7
    assert properties.UserProperty == [("run", "r")]
