"""MQTT 5 properties as paho wants them: of a message, or a packet's empty ones."""

from __future__ import annotations

from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from wire.outbox import Message


def properties_of(message: Message, *, will: bool = False) -> Any:
    """Content type, expiry and user properties, where the message has them."""
    properties = new_properties(PacketTypes.WILLMESSAGE if will else PacketTypes.PUBLISH)
    if message.content_type:
        properties.ContentType = message.content_type
    if message.expiry_s is not None:
        properties.MessageExpiryInterval = message.expiry_s
    if message.properties:
        properties.UserProperty = list(message.properties)
    return properties


def new_properties(packet: int) -> Any:
    return Properties(packet)  # type: ignore[no-untyped-call]  # paho has no types here
