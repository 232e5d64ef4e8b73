"""A message's MQTT 5 properties, as paho wants them."""

from __future__ import annotations

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from wire.outbox import Message


def properties_of(message: Message, *, will: bool = False) -> Properties:
    """Content type, expiry and user properties, where the message has them."""
    properties = Properties(PacketTypes.WILLMESSAGE if will else PacketTypes.PUBLISH)
    if message.content_type:
        properties.ContentType = message.content_type
    if message.expiry_s is not None:
        properties.MessageExpiryInterval = message.expiry_s
    if message.properties:
        properties.UserProperty = list(message.properties)
    return properties
