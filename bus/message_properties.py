"""MQTT 5 properties as paho wants them, of a will or empty ones, and how large a message is."""

from __future__ import annotations

from typing import Any

from paho.mqtt.packettypes import PacketTypes

from bus.packed_properties import PackedProperties
from bus.paho_properties import BriefProperties
from wire.errors import TooLarge
from wire.outbox import Message
from wire.parts import PACKET_SLACK_NBYTES

HEAD_NBYTES = 9  # of a PUBLISH: type, length, topic's length, packet identifier


def properties_of(will: Message) -> Any:
    """Content type, expiry and user properties, where the message has them."""
    properties = new_properties(PacketTypes.WILLMESSAGE)
    if will.content_type:
        properties.ContentType = will.content_type
    if will.expiry_s is not None:
        properties.MessageExpiryInterval = will.expiry_s
    if will.properties:
        properties.UserProperty = list(will.properties)
    return properties


def new_properties(packet: int) -> Any:
    return BriefProperties(packet)


def fault_of_size(message: Message, limit_nbytes: int | None) -> TooLarge | None:
    """Why a broker with that limit would close the connection at this message, and again
    whenever it is repeated."""
    if limit_nbytes is None or len(message.payload) + PACKET_SLACK_NBYTES <= limit_nbytes:
        return None
    properties = len(PackedProperties(message).pack())
    nbytes = HEAD_NBYTES + len(message.topic.encode()) + properties + len(message.payload)
    if nbytes <= limit_nbytes:
        return None
    return TooLarge(
        f"a message of {nbytes} bytes to {message.topic} is more than the {limit_nbytes} that the "
        "broker takes; raise its largest packet size"
    )
