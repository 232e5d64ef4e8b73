"""A plain MQTT 5 client for tests: says what happened, and waits with a limit."""

from __future__ import annotations

import queue
import socket
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from broker_config.url import BrokerUrl
from wire.ids import mint

LIMIT_S = 10.0
DENIED = 135


class MqttClient:
    """Connected on entering. `outcomes` are reason codes in the order they arrived."""

    def __init__(
        self,
        url: BrokerUrl,
        client_id: str | None = None,
        will: tuple[str, bytes, bool] | None = None,
        clean: bool = True,
        session_expiry_s: int = 0,
    ) -> None:
        self.url = url
        self._clean = clean
        self._expiry_s = session_expiry_s
        self._client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=client_id or f"test-{mint(4)}",
            protocol=paho.MQTTv5,
        )
        self._client.username_pw_set(url.user, url.secret)
        if will is not None:
            self._client.will_set(will[0], will[1], qos=1, retain=will[2])
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self._connects: queue.Queue[tuple[int, bool, Properties | None]] = queue.Queue()
        self._ends: queue.Queue[int] = queue.Queue()
        self._acks: queue.Queue[int] = queue.Queue()
        self._grants: queue.Queue[list[int]] = queue.Queue()
        self._wire_up()

    def _wire_up(self) -> None:
        client = self._client
        client.on_connect = lambda _c, _u, flags, code, properties: self._connects.put(
            (code.value, flags.session_present, properties)
        )
        client.on_disconnect = lambda _c, _u, _f, code, _p: self._ends.put(code.value)
        client.on_publish = lambda _c, _u, _m, code, _p: self._acks.put(code.value)
        client.on_subscribe = lambda _c, _u, _m, codes, _p: self._grants.put(
            [code.value for code in codes]
        )
        client.on_message = lambda _c, _u, message: self.messages.put(message)

    def connect(self) -> tuple[int, bool, Properties | None]:
        """`(reason code, session present, CONNACK properties)`."""
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = self._expiry_s
        self._client.connect(
            self.url.host, self.url.port, clean_start=self._clean, properties=properties
        )
        self._client.loop_start()
        return self._connects.get(timeout=LIMIT_S)

    def publish(
        self,
        topic: str,
        payload: bytes,
        retain: bool = False,
        limit_s: float = LIMIT_S,
        **properties: Any,
    ) -> int:
        """The reason code of the broker's PUBACK."""
        said = Properties(PacketTypes.PUBLISH)
        for name, value in properties.items():
            setattr(said, name, value)
        self._client.publish(topic, payload, qos=1, retain=retain, properties=said)
        return self._acks.get(timeout=limit_s)

    def subscribe(self, *filters: str) -> list[int]:
        """The reason codes of the broker's SUBACK."""
        self._client.subscribe([(text, paho.SubscribeOptions(qos=1)) for text in filters])
        return self._grants.get(timeout=LIMIT_S)

    def next(self, limit_s: float = LIMIT_S) -> paho.MQTTMessage:
        """The next message; `queue.Empty` if none comes."""
        return self.messages.get(timeout=limit_s)

    def ended(self, limit_s: float = LIMIT_S) -> int:
        """The reason of the next disconnection."""
        return self._ends.get(timeout=limit_s)

    @property
    def connected(self) -> bool:
        return self._ends.empty() and self._client.is_connected()

    def vanish(self) -> None:
        """Drop the connection without a farewell, as a phone without power would."""
        link = self._client.socket()
        assert link is not None
        self._client.disable_logger()
        self._client.on_disconnect = None
        self._client._thread_terminate = True  # paho has no public way to not reconnect
        link.shutdown(socket.SHUT_RDWR)
        self._client.loop_stop()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self) -> MqttClient:
        code, _, _ = self.connect()
        assert code == 0, f"the broker refused the test's client with code {code}"
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
