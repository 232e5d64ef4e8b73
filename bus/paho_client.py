"""paho's client, set up as this project uses it.

paho keeps no queue of its own and has no say in what is tried again: its outgoing window is open,
and its loop and thread are not used. It logs nothing: what it would is told by the connection, in
our words, and to be asked costs a twentieth of each message.
"""

from __future__ import annotations

from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from bus.broker_socket import tune
from bus.buffered_socket import BufferedSocket
from bus.paho_properties import spare_copies
from wire.broker_url import BrokerUrl


class Client(paho.Client):
    """Over a socket that reads ahead and writes together."""

    def _create_socket(self) -> Any:
        link: Any = super()._create_socket()
        return BufferedSocket(link)


def make_client(broker: BrokerUrl, client_id: str) -> Client:
    """A client that has not connected yet."""
    spare_copies()
    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    if broker.user is not None:
        client.username_pw_set(broker.user, broker.secret)
    if broker.tls:
        client.tls_set()
    client.max_inflight_messages = 0  # the window is the outbox's
    client.suppress_exceptions = True  # should one of ours slip through; each is logged by us
    client.on_socket_open = lambda _client, _data, link: tune(link)
    return client


def in_a_message(client: paho.Client) -> bool:
    """Whether a message was begun to be read and the rest is still to come. paho says so nowhere
    in public; where it is made otherwise inside, the answer is no, and each piece is read at
    once."""
    packet: Any = getattr(client, "_in_packet", None)
    return isinstance(packet, dict) and packet.get("to_process", 0) > 0
