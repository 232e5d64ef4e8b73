"""The agent's one MQTT connection: kept up, with a fresh identity each time it comes up.

A thread of its own does all of the network: it connects, subscribes, receives, and publishes what
its source offers, so that nothing lies in paho's queue while the broker is away. A session starts
clean with the process and is resumed afterwards. What messages mean is the listener's affair;
whatever the listener raises is logged and never ends the thread.

paho's own loop is not used: it cannot set a new will before each reconnect by itself, and its
thread and ours would take its locks and ours in opposite orders.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from edge_agent.adapters.link import Link
from edge_agent.adapters.message_properties import properties_of
from edge_agent.adapters.paho_properties import spare_copies
from edge_agent.adapters.sending import Sending
from edge_agent.adapters.trickle import Trickle, waiting_nbytes
from wire.broker_socket import tune
from wire.broker_url import NO_BROKER_THERE, BrokerUrl
from wire.errors import CrowdpipeError, Refused, Replaced
from wire.ids import mint
from wire.outbox import Message, Numbered

KEEPALIVE_S = 60
SESSION_EXPIRY_S = 300
CONNECT_LIMIT_S = 15.0  # from the first byte until every subscription is granted
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
IDLE_S = 5.0  # longest sleep of the thread: finer would only cost a phone's battery
MOST_IN_FLIGHT = 20  # messages that the broker has not acknowledged yet
LARGEST_PACKET_NBYTES = 8 << 20  # what we let the broker send us
FAILURE = 128  # MQTT 5 reason codes from here on are refusals
TAKEN_OVER = 142
PROTOCOL_ERROR = 130  # paho: what came was no packet of MQTT
CREDENTIALS_REFUSED = (134, 135, 140)

_log = logging.getLogger("crowdpipe.agent.connection")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as it came; `retained` if it was published before we subscribed."""

    topic: str
    payload: bytes
    retained: bool
    content_type: str


class ConnectionListener(Protocol):
    """Called in the connection's thread, one call at a time."""

    def will(self, connection: str) -> Message: ...
    def connected(self, connection: str, reconnect: bool, packet_nbytes: int | None) -> None: ...
    def disconnected(self, reason: str) -> None: ...
    def received(self, message: Incoming) -> None: ...
    def next_outgoing(self) -> Numbered | None: ...
    def acknowledged(self, numbered: Numbered) -> None: ...
    def refused(self, topic: str, error: Refused) -> None: ...
    def ended(self, error: CrowdpipeError) -> None: ...


class Connection:
    """`first` filters are subscribed before `then`: when all are granted, everything retained
    under the first has been received."""

    def __init__(
        self,
        address: BrokerUrl,
        client_id: str,
        first: tuple[str, ...],
        then: tuple[str, ...],
        listener: ConnectionListener,
        link: Link,
    ) -> None:
        self._address = address
        self._first = first
        self._then = then
        self._listener = listener
        self._sending = Sending(link)
        self._trickle = Trickle(link)
        self._client = self._make_client(client_id)
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_r.setblocking(False)
        self._wake_w.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._closing = threading.Event()
        self._peer_host = address.host
        self._id = ""
        self._up = False
        self._was_up = False
        self._lost = ""
        self._asked: dict[int, tuple[str, ...]] = {}
        self._in_flight: dict[int, tuple[Numbered, float]] = {}
        self._window = MOST_IN_FLIGHT
        self._packet_nbytes: int | None = None
        self._fatal: CrowdpipeError | None = None

    @property
    def peer_host(self) -> str:
        """The broker's host as we reach it."""
        return self._peer_host

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be something to publish."""
        try:
            self._wake_w.send(b"!")
        except (BlockingIOError, OSError):
            return  # a full pipe wakes as well; a closed one has nobody to wake

    def close(self, limit_s: float) -> None:
        """Publish what is still offered, at most `limit_s`, then disconnect in order (no will)."""
        self._limit_at = time.monotonic() + limit_s
        self._closing.set()
        self.wake()
        self._thread.join(limit_s + CONNECT_LIMIT_S)

    def _make_client(self, client_id: str) -> paho.Client:
        spare_copies()
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        if self._address.user is not None:
            client.username_pw_set(self._address.user, self._address.secret)
        if self._address.tls:
            client.tls_set()
        client.max_inflight_messages = 0  # the window is ours
        client.suppress_exceptions = True  # and logged by paho, should one of ours slip through
        client.enable_logger(_log.getChild("paho"))
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        client.on_socket_open = lambda _client, _data, link: tune(link)
        return client

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        delay_s = FIRST_DELAY_S
        while not self._closing.is_set() and self._fatal is None:
            if self._connect():
                if self._serve():
                    delay_s = FIRST_DELAY_S
                self._drop_connection()
            if self._closing.is_set() or self._fatal is not None:
                break
            self._pause(delay_s * random.uniform(0.75, 1.25))
            delay_s = min(LONGEST_DELAY_S, delay_s * 2)
        if self._fatal is not None:
            self._safely(self._listener.ended, self._fatal)

    def _connect(self) -> bool:
        """A socket and a CONNECT on its way; False if the broker cannot be reached."""
        self._id, self._lost, self._up = mint(), "", False
        self._asked.clear()
        self._client.drop_out_messages()
        self._in_flight.clear()
        self._sending.restart()
        will = self._listener.will(self._id)
        self._client.will_set(
            will.topic, will.payload, will.qos, will.retain, properties_of(will, will=True)
        )
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = SESSION_EXPIRY_S
        properties.MaximumPacketSize = LARGEST_PACKET_NBYTES
        self._client.connect_async(
            self._address.host,
            self._address.port,
            KEEPALIVE_S,
            clean_start=not self._was_up,
            properties=properties,
        )
        try:
            self._client.reconnect()
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            self._tell_lost(f"cannot reach the broker at {self._address.shown}: {said}")
            return False
        return True

    def _serve(self) -> bool:
        """Until the connection is lost or closed; True if it was up at all."""
        limit_at = time.monotonic() + CONNECT_LIMIT_S
        while not self._lost and self._fatal is None:
            if not self._up and time.monotonic() > limit_at:
                self._lost = f"the broker did not answer within {CONNECT_LIMIT_S:g} s"
                break
            if self._closing.is_set() and self._may_leave():
                self._client.disconnect()
                self._lost = ""  # not lost: closed by us, which is nothing to tell
                break
            self._turn()
        if self._lost:
            self._tell_lost(self._lost)
        return self._up

    def _may_leave(self) -> bool:
        if not self._up or time.monotonic() > self._limit_at:
            return True
        self._pump()
        return not self._in_flight

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        link: Any = self._client.socket()
        if link is None:
            self._lost = self._lost or "the connection was closed"
            return
        writers = [link] if self._client.want_write() else []
        idle_s = 0.05 if self._closing.is_set() else IDLE_S if self._up else 0.5
        pause_s = self._trickle.pause_s(time.monotonic())
        readers = [self._wake_r] if pause_s else [link, self._wake_r]
        try:
            readable, writable, _ = select.select(readers, writers, [], pause_s or idle_s)
        except (OSError, ValueError) as error:
            self._lost = f"the connection broke: {error}"
            return
        if self._wake_r in readable:
            self._empty_wakes()
        if link in readable:
            self._read(link)
        if writable and self._client.socket() is not None:
            self._client.loop_write()
        self._client.loop_misc()
        self._pump()

    def _read(self, link: Any) -> None:
        self._trickle.found(waiting_nbytes(link), time.monotonic())
        self._client.loop_read()
        while self._client.socket() is link and getattr(link, "pending", int)():
            self._client.loop_read()  # TLS has bytes that select cannot see

    def _pump(self) -> None:
        while self._up and not self._lost and len(self._in_flight) < self._window:
            numbered = self._safely(self._listener.next_outgoing)
            if numbered is None:
                return
            self._publish(numbered)

    def _publish(self, numbered: Numbered) -> None:
        message, now = numbered.message, time.monotonic()
        info = self._client.publish(
            message.topic,
            message.payload,
            message.qos,
            message.retain,
            properties_of(message),
        )
        if message.qos > 0:
            self._in_flight[info.mid] = (numbered, now)
            self._sending.began(len(message.payload), now)
        else:
            self._safely(self._listener.acknowledged, numbered)

    def _drop_connection(self) -> None:
        link: Any = self._client.socket()
        if link is not None:  # neither a farewell nor a lost connection closed it
            with contextlib.suppress(OSError):  # the other side may be faster
                link.shutdown(socket.SHUT_RDWR)
            self._client.loop_read()
        self._up = False

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._closing.is_set() and (left := until - time.monotonic()) > 0:
            select.select([self._wake_r], [], [], left)
            self._empty_wakes()

    def _empty_wakes(self) -> None:
        try:
            self._wake_r.recv(4096)
        except BlockingIOError:
            return

    def _tell_lost(self, reason: str) -> None:
        self._up = False
        self._safely(self._listener.disconnected, reason)

    def _safely(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """The call's result; None after logging what it raised: the connection must go on."""
        try:
            return call(*arguments)
        except Exception:
            _log.exception("%s failed", getattr(call, "__name__", call))
            return None

    # --- paho's callbacks, all in our thread --------------------------------------------------

    def _on_connect(
        self, _client: Any, _data: Any, _flags: Any, code: ReasonCode, said: Properties | None
    ) -> None:
        if code.is_failure:
            self._lost = f"the broker at {self._address.shown} refuses us: {code}"
            if code.value in CREDENTIALS_REFUSED and not self._was_up:
                self._fatal = Refused(
                    f"{self._lost}; check user and secret in the broker's address"
                )
            return
        self._window = min(MOST_IN_FLIGHT, getattr(said, "ReceiveMaximum", MOST_IN_FLIGHT))
        self._packet_nbytes = getattr(said, "MaximumPacketSize", None)
        self._remember_host()
        self._subscribe(self._first)

    def _remember_host(self) -> None:
        link: Any = self._client.socket()
        if link is not None:
            self._peer_host = str(link.getpeername()[0])

    def _subscribe(self, filters: tuple[str, ...]) -> None:
        options = SubscribeOptions(qos=1, noLocal=True)
        _, mid = self._client.subscribe([(text, options) for text in filters])
        if mid is not None:
            self._asked[mid] = filters

    def _on_subscribe(
        self, _client: Any, _data: Any, mid: int, codes: list[ReasonCode], _said: Any
    ) -> None:
        filters = self._asked.pop(mid, ())
        for text, code in zip(filters, codes, strict=False):
            if code.is_failure:
                self._fatal = Refused(f"the broker does not let us subscribe to {text}: {code}")
                return
        if filters == self._first:
            self._subscribe(self._then)
        elif filters == self._then:
            self._come_up()

    def _come_up(self) -> None:
        reconnect, self._was_up, self._up = self._was_up, True, True
        _log.info("connected to %s as connection %s", self._address.shown, self._id)
        self._safely(self._listener.connected, self._id, reconnect, self._packet_nbytes)

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        content_type = getattr(message.properties, "ContentType", "")
        incoming = Incoming(message.topic, bytes(message.payload), message.retain, content_type)
        self._safely(self._listener.received, incoming)

    def _on_publish(self, _client: Any, _data: Any, mid: int, code: ReasonCode, _said: Any) -> None:
        numbered, sent_s = self._in_flight.pop(mid, (None, 0.0))
        if numbered is None:
            return
        message = numbered.message
        self._sending.acknowledged(len(message.payload), sent_s, time.monotonic())
        if code.is_failure:
            error = Refused(f"the broker refuses our messages to {message.topic}: {code}")
            self._safely(self._listener.refused, message.topic, error)
        self._safely(self._listener.acknowledged, numbered)

    def _on_disconnect(
        self, _client: Any, _data: Any, flags: Any, code: ReasonCode, _said: Any
    ) -> None:
        stranger = code.value == PROTOCOL_ERROR and not self._up
        why = NO_BROKER_THERE if stranger else f"the connection was lost: {code}"
        self._lost = self._lost or why
        if flags.is_disconnect_packet_from_server and code.value == TAKEN_OVER:
            # Connecting again would take the newcomer's session from it in turn.
            self._fatal = Replaced(
                f"another agent connected as {self._address.user or 'this device'}; "
                "give each agent its own name"
            )
