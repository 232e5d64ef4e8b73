"""One MQTT connection, for any party on the server's side: the orchestrator, or a client.

A thread of its own does all of the network: it connects with a fresh identity each time,
subscribes, receives, and publishes what its outbox releases, so that nothing lies in paho's queue
while the broker is away. What the broker has not acknowledged when a connection ends is published
again on the next. What messages mean is the listener's affair; whatever the listener raises is
logged and never ends the thread. `publish` may be called from any thread and never waits.

paho's own loop is not used: it cannot set a new will before each reconnect by itself.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from orchestrator.adapters.connection_listener import (
    ConnectionListener,
    Incoming,
    Subscription,
)
from orchestrator.adapters.message_properties import new_properties, properties_of
from wire.broker_socket import tune
from wire.broker_url import NO_BROKER_THERE, BrokerUrl
from wire.errors import BrokerUnreachable, CrowdpipeError, Refused, Replaced, TimedOut
from wire.ids import mint
from wire.outbox import Message, Numbered, Outbox

KEEPALIVE_S = 60
SESSION_EXPIRY_S = 300
CONNECT_LIMIT_S = 15.0  # from the first byte until every subscription is granted
FIRST_DELAY_S = 0.25
LONGEST_DELAY_S = 5.0
IDLE_S = 5.0
LARGEST_PACKET_NBYTES = 64 << 20  # what we let the broker send us
FAILURE = 128  # MQTT 5 reason codes from here on are refusals
TAKEN_OVER = 142
PROTOCOL_ERROR = 130  # paho: what came was no packet of MQTT
CREDENTIALS_REFUSED = (134, 135, 140)

_log = logging.getLogger("crowdpipe.connection")


class Connection:
    """`first` is subscribed before `then`: when all are granted, everything retained under the
    first has been received. `roomy_nbytes`: below that the outbox counts as holding little."""

    def __init__(
        self,
        broker: BrokerUrl,
        client_id: str,
        first: tuple[Subscription, ...],
        then: tuple[Subscription, ...],
        listener: ConnectionListener,
        outbox: Outbox | None = None,
        roomy_nbytes: int = 8 << 20,
    ) -> None:
        self._broker = broker
        self._first, self._then = first, then
        self._listener = listener
        self._guard = threading.Lock()
        self._outbox = outbox or Outbox()
        self._most_inflight = self._outbox.max_inflight
        self._roomy_nbytes = roomy_nbytes
        self._released: deque[Numbered] = deque()
        self._client = self._make_client(client_id)
        self._wake_r, self._wake_w = socket.socketpair()
        self._wake_r.setblocking(False)
        self._wake_w.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="mqtt", daemon=True)
        self._closing = threading.Event()
        self._limit_at = 0.0
        self._id = ""
        self._up = False
        self._was_up = False
        self._lost = ""
        self._asked: dict[int, tuple[Subscription, ...]] = {}
        self._in_flight: dict[int, Numbered] = {}
        self._packet_nbytes: int | None = None
        self._fatal: CrowdpipeError | None = None

    @property
    def waiting_nbytes(self) -> int:
        """Payload bytes that wait to be published."""
        return self._outbox.nbytes

    @property
    def alive(self) -> bool:
        """The thread runs: it is connected, or tries to be."""
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def publish(self, message: Message) -> None:
        """Publish as soon as there is room. Raises `QueueFull` at the outbox's bound."""
        with self._guard:
            self._released.extend(self._outbox.put(message))
        self.wake()

    def wake(self) -> None:
        """There may be something to do."""
        try:
            self._wake_w.send(b"!")
        except (BlockingIOError, OSError):
            return  # a full pipe wakes as well; a closed one has nobody to wake

    def close(self, limit_s: float) -> None:
        """Publish what waits, at most `limit_s`, then disconnect in order (no will).

        Raises `TimedOut` if the thread does not end.
        """
        self._limit_at = time.monotonic() + limit_s
        self._closing.set()
        self.wake()
        if self._thread.ident is None:
            return
        self._thread.join(limit_s + CONNECT_LIMIT_S)
        if self._thread.is_alive():
            raise TimedOut(f"the connection to {self._broker.shown} did not end in time")
        self._wake_r.close()
        self._wake_w.close()

    def _make_client(self, client_id: str) -> paho.Client:
        client = paho.Client(CallbackAPIVersion.VERSION2, client_id=client_id, protocol=paho.MQTTv5)
        if self._broker.user is not None:
            client.username_pw_set(self._broker.user, self._broker.secret)
        if self._broker.tls:
            client.tls_set()
        client.max_inflight_messages = 0  # the window is the outbox's
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
        self._client.drop_out_messages()  # the outbox hands them out again
        self._in_flight.clear()
        self._set_will()
        properties = new_properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = SESSION_EXPIRY_S
        properties.MaximumPacketSize = LARGEST_PACKET_NBYTES
        self._client.connect_async(
            self._broker.host,
            self._broker.port,
            KEEPALIVE_S,
            clean_start=not self._was_up,
            properties=properties,
        )
        try:
            self._client.reconnect()
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or error
            self._tell_lost(f"cannot reach the broker at {self._broker.shown}: {said}")
            return False
        return True

    def _set_will(self) -> None:
        will = self._safely(self._listener.will, self._id)
        if will is None:
            self._client.will_clear()
            return
        self._client.will_set(
            will.topic, will.payload, will.qos, will.retain, properties_of(will, will=True)
        )

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
        was_up = self._up
        if self._lost:
            self._tell_lost(self._lost)
        return was_up

    def _may_leave(self) -> bool:
        if not self._up or time.monotonic() > self._limit_at:
            return True
        self._pump()
        with self._guard:
            return self._outbox.empty and not self._released

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        link = self._client.socket()
        if link is None:
            self._lost = self._lost or "the connection was closed"
            return
        writers = [link] if self._client.want_write() else []
        idle_s = 0.05 if self._closing.is_set() else IDLE_S if self._up else 0.5
        try:
            readable, writable, _ = select.select([link, self._wake_r], writers, [], idle_s)
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
        self._client.loop_read()
        while self._client.socket() is link and getattr(link, "pending", int)():
            self._client.loop_read()  # TLS has bytes that select cannot see

    def _pump(self) -> None:
        while self._up and not self._lost:
            if self._outbox.nbytes < self._roomy_nbytes:
                self._safely(self._listener.roomy)
            with self._guard:
                released = list(self._released)
                self._released.clear()
            if not released:
                return
            for numbered in released:
                self._publish(numbered)

    def _publish(self, numbered: Numbered) -> None:
        message = numbered.message
        info = self._client.publish(
            message.topic,
            message.payload,
            message.qos,
            message.retain,
            properties_of(message),
        )
        if message.qos > 0:
            self._in_flight[info.mid] = numbered

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
        with self._guard:
            self._outbox.disconnected()
            self._released.clear()  # what has QoS 1 is handed out again; the rest was for now
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
            self._lost = f"the broker at {self._broker.shown} refuses us: {code}"
            if code.value in CREDENTIALS_REFUSED and not self._was_up:
                self._fatal = Refused(
                    f"{self._lost}; check user and secret in the broker's address"
                )
            return
        with self._guard:
            granted = getattr(said, "ReceiveMaximum", self._most_inflight)
            self._outbox.max_inflight = min(self._most_inflight, granted)
        self._packet_nbytes = getattr(said, "MaximumPacketSize", None)
        self._subscribe(self._first or self._then)

    def _subscribe(self, subscriptions: tuple[Subscription, ...]) -> None:
        if not subscriptions:
            self._come_up()
            return
        _, mid = self._client.subscribe(
            [
                (each.topic, SubscribeOptions(qos=1, noLocal=not each.echoes))
                for each in subscriptions
            ]
        )
        if mid is not None:
            self._asked[mid] = subscriptions

    def _on_subscribe(
        self, _client: Any, _data: Any, mid: int, codes: list[ReasonCode], _said: Any
    ) -> None:
        asked = self._asked.pop(mid, ())
        for each, code in zip(asked, codes, strict=False):
            if code.is_failure:
                self._fatal = Refused(f"the broker does not let us read {each.topic}: {code}")
                return
        if asked and asked == self._first and self._then:
            self._subscribe(self._then)
        elif asked:
            self._come_up()

    def _come_up(self) -> None:
        reconnect, self._was_up, self._up = self._was_up, True, True
        _log.info("connected to %s as connection %s", self._broker.shown, self._id)
        with self._guard:
            self._released.extend(self._outbox.connected(session_present=False))
        self._safely(self._listener.connected, self._id, reconnect, self._packet_nbytes)

    def _on_message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        content_type = getattr(message.properties, "ContentType", "")
        incoming = Incoming(message.topic, bytes(message.payload), message.retain, content_type)
        self._safely(self._listener.received, incoming)

    def _on_publish(self, _client: Any, _data: Any, mid: int, code: ReasonCode, _said: Any) -> None:
        numbered = self._in_flight.pop(mid, None)
        if numbered is None:
            return
        with self._guard:
            self._released.extend(self._outbox.acknowledged(numbered.token))
        if code.is_failure:
            topic = numbered.message.topic
            error = Refused(f"the broker refuses our messages to {topic}: {code}")
            self._safely(self._listener.refused, topic, error)

    def _on_disconnect(
        self, _client: Any, _data: Any, flags: Any, code: ReasonCode, _said: Any
    ) -> None:
        stranger = code.value == PROTOCOL_ERROR and not self._up
        why = NO_BROKER_THERE if stranger else f"the connection was lost: {code}"
        self._lost = self._lost or why
        if flags.is_disconnect_packet_from_server and code.value == TAKEN_OVER:
            # Connecting again would take the newcomer's session from it in turn.
            self._fatal = Replaced(
                f"another program connected as {self._broker.user or 'us'}; run only one"
            )


def unreachable(broker: BrokerUrl, reason: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"the broker at {broker.shown} cannot be reached: {reason}")
