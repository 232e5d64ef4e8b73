"""A party's one MQTT connection: kept up, with a fresh identity each time it comes up.

One thread does all of the network, turn by turn: it connects, subscribes, receives, and publishes
what the outbox releases, so that nothing lies in paho's queue while the broker is away. That thread
is its owner's, which calls `turn` in a loop of its own, or one that `start` begins. A turn waits
for nothing but something to do, at most as long as it is told. A session starts clean with the
process and is resumed afterwards. Frames go to the courier and come from it; what other messages
mean is the listener's affair, and whatever the listener raises is logged and never ends the loop.
`publish` may be called from any thread and never waits. paho's own loop is not used: ADR 36.
"""

from __future__ import annotations

import contextlib
import logging
import random
import select
import threading
import time
from collections.abc import Callable
from typing import Any

from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from bus.buffered_socket import BufferedSocket
from bus.connection_policy import DESK, ConnectionPolicy
from bus.connection_state import CONNECT_LIMIT_S, IDLE_S, ConnectionLife, ConnectionState
from bus.courier import Courier
from bus.dialer import Dialer
from bus.link import Link
from bus.listener import ConnectionListener, InboundMessage, Subscription
from bus.message_properties import fault_of_size
from bus.packed_properties import PackedProperties
from bus.paho_client import Client, make_client
from bus.pending_publishes import PendingPublishes
from bus.sending_rate import SendingRate
from bus.socket_reader import SocketReader
from bus.subscription_grants import Grants
from bus.trust import Trust
from bus.vital_thread import VitalThread
from bus.waker import Waker
from wire.broker_url import NO_BROKER_THERE, BrokerUrl
from wire.errors import CrowdpipeError, Refused, Replaced, TimedOut
from wire.ids import mint
from wire.outbox import Message, Numbered, Outbox

RECEIVE_MAXIMUM = 65_535  # of a broker that announces none: MQTT 5, section 3.2.2.3.3
NO_LISTENER = 16  # in a PUBACK: nobody has subscribed to it (MQTT 5, section 3.4.2.1)
TAKEN_OVER = 142
PROTOCOL_ERROR = 130  # paho: what came was no packet of MQTT
CREDENTIALS_REFUSED = (134, 135, 140)

_log = logging.getLogger("crowdpipe.connection")


class Connection:
    """`first` is subscribed before `then`: when all are granted, everything retained under the
    first has been received. `link` is told how fast what we send leaves. `may_wait` tells by its
    topic whether a message may be read some milliseconds late; None: none may."""

    def __init__(
        self,
        broker: BrokerUrl,
        client_id: str,
        first: tuple[Subscription, ...],
        then: tuple[Subscription, ...],
        listener: ConnectionListener,
        *,
        policy: ConnectionPolicy = DESK,
        courier: Courier | None = None,
        link: Link | None = None,
        outbox: Outbox | None = None,
        trust: Trust | None = None,
        may_wait: Callable[[str], bool] | None = None,
    ) -> None:
        self._broker = broker
        self._client_id = client_id
        self._listener = listener
        self._policy = policy
        self._courier = courier
        link = Link() if link is None else link
        self._pending = PendingPublishes(policy, SendingRate(link), outbox)
        self._life = ConnectionLife(policy, lambda: random.uniform(0.75, 1.25))
        self._client = self._make_client(trust)
        self._reader = SocketReader(self._client, link, may_wait)
        self._grants = Grants(self._client, first, then)
        self._waker = Waker()
        self._dialer = Dialer(self._client, broker, policy, self._waker.wake)
        self._thread = VitalThread("mqtt", self._run, listener.ended)
        self._opened = False
        self._close_by: float | None = None
        self._peer_host, self._id = broker.host, ""
        self._packet_nbytes: int | None = None
        self._receive_maximum = RECEIVE_MAXIMUM
        if courier is not None:
            courier.join(self._publish_early, self._waker.wake)

    @property
    def state(self) -> ConnectionState:
        return self._life.state

    @property
    def peer_host(self) -> str:
        """The broker's host as we reach it: its address; over TLS, by which name it was proved."""
        return self._peer_host

    @property
    def packet_nbytes(self) -> int | None:
        """The largest packet that the broker takes, as far as it is known."""
        return self._packet_nbytes

    @property
    def ended(self) -> bool:
        """It was closed, or failed and is not tried again."""
        return self._life.ended

    def start(self) -> None:
        """Turn in a thread of its own, for an owner that has no loop."""
        self.open()
        self._thread.start()

    def open(self) -> None:
        """Connect from the next turn on; until then turns only wait."""
        self._opened = True

    def publish(self, message: Message) -> None:
        """Publish as soon as there is room. Raises `QueueFull` at the outbox's bound."""
        self._pending.put(message)
        self._waker.wake()

    def said_together(self) -> contextlib.AbstractContextManager[None]:
        """What the calling thread says inside goes out at its end, together."""
        return self._waker.once()

    def _publish_early(self, message: Message) -> None:
        """The courier's: what the broker kept for us comes before we are up, and is credited."""
        self._pending.put(message, early=True)
        self._waker.wake()

    def wake(self) -> None:
        """End the wait of the turn that is under way, or of the next. For any thread."""
        self._waker.wake()

    def close(self, limit_s: float) -> None:
        """Publish what waits, at most `limit_s`, then disconnect in order (no will).

        Raises `TimedOut` if its own thread does not end.
        """
        self._close_by = time.monotonic() + limit_s
        self._waker.wake()
        if self._thread.ident is None:
            self._run()
        else:
            self._thread.join(limit_s + CONNECT_LIMIT_S)
        if self._thread.is_alive():
            raise TimedOut(f"the connection to {self._broker.shown} did not end in time")
        self._dialer.close()
        self._waker.close()

    def _make_client(self, trust: Trust | None) -> Client:
        client = make_client(self._broker, self._client_id, trust)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        client.on_publish = self._on_publish
        return client

    # --- the turns ----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._life.ended:
            self.turn(IDLE_S)

    def turn(self, limit_s: float) -> None:
        """Say what waits to be said; then wait for something to do, and do it. Always called by
        one thread."""
        self._waker.sleeper = threading.get_ident()
        if not self._life.attached:
            self._pause(limit_s)
            return
        if self._dialer.dials:
            self._await_socket(limit_s)
        else:
            self._exchange(limit_s)
        self._look_at_the_time()
        if not self._life.attached:
            self._leave()

    def _pause(self, limit_s: float) -> None:
        """Until the next attempt, or until asked to close."""
        life, now = self._life, time.monotonic()
        if self._close_by is not None:
            life.close(self._close_by, now)
        elif life.ended or not self._opened:
            self._waker.sleep(limit_s)
        elif life.retry_at <= now:
            self._connect()
        else:
            self._waker.sleep(min(limit_s, life.retry_at - now))

    def _connect(self) -> None:
        """A socket on its way."""
        self._id = mint()
        self._grants.restart()
        self._client.drop_out_messages()  # what is still wanted is published anew
        self._reader.restart()
        self._life.begin(time.monotonic())
        self._dialer.begin(self._safely(self._listener.will, self._id), self._life.resumes)

    def _await_socket(self, limit_s: float) -> None:
        """A socket and a CONNECT on its way, or lost again."""
        self._waker.sleep(min(limit_s, self._life.idle_s))
        try:
            self._dialer.proceed()
        except (OSError, ValueError, CrowdpipeError) as error:
            self._life.unreached(self._broker.shown, error, time.monotonic())

    def _exchange(self, limit_s: float) -> None:
        link: Any = self._client.socket()
        if link is None:
            self._lose("the connection was closed")
            return
        try:
            self._say(link)
            self._hear(link, limit_s)
        except Exception as error:  # whatever paho makes of what it read
            if not isinstance(error, OSError | ValueError):
                _log.exception("the connection to %s breaks", self._broker.shown)
            self._lose(f"the connection broke: {error}")

    def _say(self, link: BufferedSocket) -> None:
        """What waits, and what the turn before held, together."""
        link.hold()
        self._pump()
        if self._client.socket() is link:
            link.flush()

    def _hear(self, link: BufferedSocket, limit_s: float) -> None:
        """Wait for what comes, and read it; what is answered at once is held for the next turn."""
        writers: list[Any] = [link] if link.unsent or self._client.want_write() else []
        pause_s = self._reader.pause_s(time.monotonic())
        readers: list[Any] = [self._waker.socket] if pause_s else [link, self._waker.socket]
        limit_s = 0.0 if link.pending() and not pause_s else min(limit_s, pause_s or self._idle_s())
        readable, writable, _ = select.select(readers, writers, [], limit_s)
        if self._waker.socket in readable:
            self._waker.clear()
        link.hold()
        if not pause_s and (link in readable or link.pending()):
            self._reader.read(link)
        if writable and self._client.socket() is link:
            self._client.loop_write()
        self._client.loop_misc()

    def _idle_s(self) -> float:
        if self._close_by is not None and self._life.state is ConnectionState.UP:
            return 0.0
        fills = self._courier if self._life.carries and self._pending.roomy else None
        fill_at = fills.fill_at() if fills else None
        due_s = IDLE_S if fill_at is None else max(0.0, fill_at - time.monotonic())
        return min(self._life.idle_s, due_s)

    def _look_at_the_time(self) -> None:
        now = time.monotonic()
        if self._close_by is not None:
            self._life.close(self._close_by, now)
            if self._life.state is ConnectionState.DRAINING and self._pending.empty:
                self._life.drained(now)
        self._life.expire(now)

    def _pump(self) -> None:
        """Publish what may be; frames leave their store one at a time, as the link takes them."""
        while self._life.carries:
            numbered = self._pending.take()
            if numbered is not None:
                self._publish(numbered)
            elif not (self._pending.roomy and self._courier and self._safely(self._courier.fill)):
                return

    def _publish(self, numbered: Numbered) -> None:
        message = numbered.message
        fault = fault_of_size(message, self._packet_nbytes)
        if fault is not None:
            self._pending.withdraw(numbered)
            self._settle(message, fault)
            return
        properties: Any = PackedProperties(message)  # all that paho asks of any
        info = self._client.publish(
            message.topic, message.payload, message.qos, message.retain, properties
        )
        if message.qos > 0:
            self._pending.published(info.mid, numbered, time.monotonic())

    def _leave(self) -> None:
        """No socket from here on, and whoever must know it does."""
        with contextlib.suppress(OSError):  # the other side may be faster
            self._client.hang_up(in_order=self._life.state is ConnectionState.CLOSED)
        self._pending.disconnected()
        if self._courier is not None:
            self._safely(self._courier.disconnected)
        if self._life.state is ConnectionState.LOST:
            self._safely(self._listener.disconnected, self._life.reason)
        if self._life.error is not None:
            self._safely(self._listener.ended, self._life.error)

    def _lose(self, reason: str) -> None:
        self._life.lost(reason, time.monotonic())

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
        self._dialer.answered = True
        if self._life.state is not ConnectionState.CONNECTING:
            return
        if code.is_failure:
            self._turned_away(code)
            return
        self._life.accepted(time.monotonic())
        self._pending.accepted()
        self._receive_maximum = getattr(said, "ReceiveMaximum", RECEIVE_MAXIMUM)
        limits = (self._broker.packet_nbytes, getattr(said, "MaximumPacketSize", None))
        self._packet_nbytes = min((each for each in limits if each is not None), default=None)
        link: Any = self._client.socket()
        if link is not None and not self._broker.tls:
            self._peer_host = str(link.getpeername()[0])
        if not self._grants.ask():
            self._come_up()

    def _turned_away(self, code: ReasonCode) -> None:
        why = f"the broker at {self._broker.shown} refuses us: {code}"
        known = code.value not in CREDENTIALS_REFUSED
        (self._life.lost if known else self._life.refused)(why, time.monotonic())

    def _on_subscribe(
        self, _client: Any, _data: Any, mid: int, codes: list[ReasonCode], _said: Any
    ) -> None:
        if self._life.state is not ConnectionState.SUBSCRIBING:
            return
        try:
            if self._grants.answered(mid, codes):
                self._come_up()
        except Refused as error:
            self._life.failed(error, time.monotonic())

    def _come_up(self) -> None:
        reconnect = self._life.resumes
        self._life.granted(time.monotonic())
        _log.info("connected to %s as connection %s", self._broker.shown, self._id)
        self._pending.connected(self._receive_maximum)
        if self._courier is not None:
            self._safely(self._courier.connected, self._packet_nbytes)
        self._safely(self._listener.connected, self._id, reconnect)

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        if not self._life.attached:
            return  # not acknowledged either: it comes again
        topic, courier = message.topic, self._courier
        self._reader.came(topic, retained=message.retain)
        if courier is not None and courier.reads(topic):
            self._safely(courier.received, topic, message.payload)
            return
        self._safely(self._listener.received, InboundMessage.of(message))

    def _on_publish(self, _client: Any, _data: Any, mid: int, code: ReasonCode, _said: Any) -> None:
        message = self._pending.acknowledged(mid, time.monotonic())
        if message is None:
            return
        if code.value == NO_LISTENER and self._courier is not None and not message.control:
            self._safely(self._courier.heard_by_nobody, message)
        else:
            refusal = Refused(f"the broker refuses our messages to {message.topic}: {code}")
            self._settle(message, refusal if code.is_failure else None)

    def _settle(self, message: Message, error: CrowdpipeError | None) -> None:
        """The broker has it, or never will."""
        if error is not None:
            self._safely(self._listener.refused, message.topic, error)
        if not message.control and self._courier is not None:
            self._safely(self._courier.acknowledged, message)

    def _on_disconnect(
        self, _client: Any, _data: Any, flags: Any, code: ReasonCode, _said: Any
    ) -> None:
        if flags.is_disconnect_packet_from_server and code.value == TAKEN_OVER:
            # Connecting again would take the newcomer's session from it in turn.
            other = f"another program connected as {self._broker.user or self._client_id}"
            error = Replaced(f"{other}; {self._policy.one_identity}")
            self._life.failed(error, time.monotonic())
        stranger = code.value == PROTOCOL_ERROR and not self._life.carries
        self._lose(NO_BROKER_THERE if stranger else f"the connection was lost: {code}")
