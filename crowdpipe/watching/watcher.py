"""An ordinary MQTT client that reads `crowdpipe/#` and keeps what it saw in an `Observation`.

It may write nothing: the broker's access list gives a watcher no right to. Everything the demo
shows of devices comes from here, as it would for anybody else who watches.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from broker_config.knock import knock
from crowdpipe.watching.observation import Observation
from wire.broker_socket import tune
from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable, Refused, TimedOut
from wire.ids import mint
from wire.topics import Topics

CONNECT_LIMIT_S = 10.0
Answer = TypeVar("Answer")


class Watcher:
    """Connected inside a `with`, which is entered once everything retained was read.

    `clock` stamps arrivals; `hear` gets every message as it came, in paho's thread, so it must
    not take long.
    """

    def __init__(
        self,
        url: BrokerUrl,
        topics: Topics | None = None,
        clock: Callable[[], float] = time.monotonic,
        hear: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self._url = url
        self._topics = Topics() if topics is None else topics
        self._clock = clock
        self._hear = hear
        self._changed = threading.Condition()
        self._observation = Observation(self._topics)
        self._refusal: str | None = None
        self._granted = self._asked_twice = False
        self._client = self._make_client()

    def _make_client(self) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"watcher-{mint(4)}",
            protocol=MQTTProtocolVersion.MQTTv5,
        )
        client.username_pw_set(self._url.user, self._url.secret)
        if self._url.tls:
            client.tls_set()
        client.on_socket_open = lambda _client, _data, link: tune(link)
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message
        return client

    def _on_connect(
        self,
        client: paho.Client,
        _user: object,
        _flags: paho.ConnectFlags,
        code: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        if not code.is_failure:
            self._asked_twice = False
            client.subscribe(f"{self._topics.control_root}/#", qos=1)
            return
        self._say(str(code))

    def _on_subscribe(
        self,
        client: paho.Client,
        _user: object,
        _mid: int,
        codes: list[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        refused = [str(code) for code in codes if code.is_failure]
        if refused or self._asked_twice:
            self._say(refused[0] if refused else None)
            return
        # The answer to a second subscription comes after what is retained under the first.
        self._asked_twice = True
        client.subscribe(self._topics.orchestrator_state, qos=1)

    def _say(self, refusal: str | None) -> None:
        with self._changed:
            self._granted, self._refusal = refusal is None, refusal
            self._changed.notify_all()

    def _on_message(self, _client: paho.Client, _user: object, message: paho.MQTTMessage) -> None:
        now = self._clock()
        with self._changed:
            self._observation.see(message.topic, bytes(message.payload), now)
            self._changed.notify_all()
        if self._hear is not None:
            self._hear(message.topic, bytes(message.payload))

    def look(self, ask: Callable[[Observation], Answer]) -> Answer:
        """What `ask` says of the observation, which does not change meanwhile."""
        with self._changed:
            return ask(self._observation)

    def wait(self, until: Callable[[Observation], bool], limit_s: float, what: str) -> None:
        """Return once `until` holds; `TimedOut` says that `what` was waited for."""
        with self._changed:
            if not self._changed.wait_for(lambda: until(self._observation), limit_s):
                raise TimedOut(f"waited {limit_s:g} s for {what}")

    def __enter__(self) -> Watcher:
        knock(self._url)  # says at once and in our words what paho would try again and again
        try:
            self._client.connect(self._url.host, self._url.port, clean_start=True)
        except OSError as error:
            raise BrokerUnreachable(f"no broker answers at {self._url.shown}: {error}") from None
        self._client.loop_start()
        try:
            self._await_grant()
        except BaseException:
            self._close()
            raise
        return self

    def _await_grant(self) -> None:
        with self._changed:
            answered = self._changed.wait_for(
                lambda: self._granted or self._refusal is not None, CONNECT_LIMIT_S
            )
        if not answered:
            raise TimedOut(
                f"waited {CONNECT_LIMIT_S:g} s for the broker at {self._url.shown} to let the "
                "watcher in; check host and port"
            )
        if self._refusal is not None:
            raise Refused(f"the broker at {self._url.shown} refused: {self._refusal}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
