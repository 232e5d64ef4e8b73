"""paho's client, set up as this project uses it.

paho keeps no queue of its own and has no say in what is tried again: its outgoing window is open,
and its loop and thread are not used. It logs nothing: what it would is told by the connection, in
our words, and to be asked costs a twentieth of each message. A message that comes or goes is read
and made here, with none or one copy of its payload instead of five. Where paho is made otherwise
inside, it does that itself, as it comes.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from bus.arrived_publish import ArrivedPublish, Unreadable
from bus.broker_socket import tune
from bus.buffered_socket import BufferedSocket
from bus.message_properties import new_properties
from bus.paho_properties import spare_copies
from bus.trust import NO_TLS_THERE, Trust, is_no_tls
from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable

PUBLISH = 0x30
MID_NBYTES = 2  # of a packet identifier
_TAKEN = ReasonCode(PacketTypes.PUBACK)  # success
_INSIDE = (  # of paho 2.2.0, what is used below
    "_do_on_publish",
    "_handle_pubackcomp",
    "_handle_publish",
    "_pack_remaining_length",
    "_packet_queue",
    "_send_puback",
    "_send_publish",
)
_KNOWN_INSIDE = all(hasattr(paho.Client, name) for name in _INSIDE)

_log = logging.getLogger("crowdpipe.connection")


class Client(paho.Client):
    """Over a socket that reads ahead and writes together; over TLS if there is a `trust`."""

    trust: Trust | None = None
    _opened: BufferedSocket | None = None

    def _handle_publish(self) -> MQTTErrorCode:
        """What came, to `on_message`; then it is acknowledged."""
        packet: Any = getattr(self, "_in_packet", None)
        if not (_KNOWN_INSIDE and isinstance(packet, dict) and hasattr(self, "_in_callback_mutex")):
            return super()._handle_publish()
        if getattr(self._state, "name", "") == "MQTT_CS_CONNECTING":
            return MQTTErrorCode.MQTT_ERR_PROTOCOL  # no broker begins so, but many a text does
        try:
            came = ArrivedPublish(packet["command"], packet["packet"])
        except Unreadable as error:
            _log.warning("the broker said what cannot be read: %s", error)
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        if came.qos > 1:
            return super()._handle_publish()
        with self._in_callback_mutex:  # paho's sign that nothing is written from inside
            self._hand_over(came)
        return self._send_puback(came.mid) if came.qos else MQTTErrorCode.MQTT_ERR_SUCCESS

    def _hand_over(self, came: ArrivedPublish) -> None:
        told: Any = self.on_message
        try:
            told(self, None, came)
        except Exception:  # as paho does: the connection must go on
            _log.exception("a message on %s was not taken", came.topic)

    def _handle_pubackcomp(self, cmd: Any) -> MQTTErrorCode:
        """Almost every acknowledgement is no more than a number; paho makes tables of what it does
        not say."""
        packet: Any = getattr(self, "_in_packet", None)
        if not (_KNOWN_INSIDE and cmd == "PUBACK" and isinstance(packet, dict)):
            return super()._handle_pubackcomp(cmd)
        if len(packet["packet"]) != MID_NBYTES or not hasattr(self, "_out_messages"):
            return super()._handle_pubackcomp(cmd)
        mid = int.from_bytes(packet["packet"], "big")
        if mid not in self._out_messages:
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        nothing: Any = None
        return self._do_on_publish(mid, _TAKEN, nothing)

    def _send_publish(
        self,
        mid: int,
        topic: bytes,
        payload: bytes | bytearray = b"",
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        info: Any = None,
        properties: Any = None,
    ) -> MQTTErrorCode:
        """Of what paho makes for it, the payload is copied once, and not again to be sent."""
        if not _KNOWN_INSIDE or self._sock is None or properties is None:
            return super()._send_publish(mid, topic, payload, qos, retain, dup, info, properties)
        head = bytearray((PUBLISH | dup << 3 | qos << 1 | retain,))
        number = mid.to_bytes(2, "big") if qos else b""
        rest = (len(topic).to_bytes(2, "big"), topic, number, properties.pack(), payload)
        self._pack_remaining_length(head, sum(map(len, rest)))
        packet: Any = memoryview(b"".join((head, *rest)))  # paho cuts it, which copies no view
        return self._packet_queue(PUBLISH, packet, mid, qos, info)

    def open_socket(self) -> BufferedSocket:
        """To the host and port of `connect_async`. Waits; for a thread that may. Raises `OSError`,
        `ValueError`, and over TLS `Untrusted` or `BrokerUnreachable`."""
        link: Any = super()._create_socket() if self.trust is None else self._secured(self.trust)
        return BufferedSocket(link)

    def _secured(self, trust: Trust) -> Any:
        try:
            trust.learn(self.host, self.port)
            return super()._create_socket()
        except OSError as error:
            if is_no_tls(error):
                raise BrokerUnreachable(NO_TLS_THERE) from None
            where = f"the broker at {self.host}:{self.port}"
            raise trust.explained(error, where, self.host) or error from None

    def connect_through(self, link: BufferedSocket) -> None:
        """Say CONNECT over it."""
        self._opened = link
        try:
            self.reconnect()
        finally:
            self._opened = None

    def hang_up(self, *, in_order: bool) -> None:
        """In order, the broker is told so, and keeps nothing for us. Raises `OSError`."""
        link: Any = self._sock
        try:
            if link is not None and in_order:
                link.flush()  # paho would close it on what is held
                farewell = new_properties(PacketTypes.DISCONNECT)
                farewell.SessionExpiryInterval = 0  # we start clean: nothing need wait for us
                self.disconnect(properties=farewell)
            if self._sock is not None:  # no farewell and no lost connection closed it
                link.shutdown(socket.SHUT_RDWR)
                self.loop_read()
        finally:
            self._sock_close()  # the other side may have been faster

    def _create_socket(self) -> Any:
        return self.open_socket() if self._opened is None else self._opened


def make_client(broker: BrokerUrl, client_id: str, trust: Trust | None = None) -> Client:
    """A client that has not connected yet. Raises `InvalidSettings` of an authority that is none;
    `trust` stands for the one that the address names."""
    spare_copies()
    client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
    if broker.user is not None:
        client.username_pw_set(broker.user, broker.secret)
    if broker.tls:
        client.trust = trust or Trust(broker.authority)
        client.tls_set_context(client.trust.context)
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
