"""The floor of a hop: a bare MQTT client that passes bytes on, without codec, queue or machine.

    python -m benchmarks.bare BROKER NAME

A process of its own, like an agent, with the same library, protocol, quality of service and socket.
It reads a word a line and answers in a line of JSON; it ends when its input does.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from benchmarks.talker import Talker
from bus.broker_socket import tune
from wire.broker_url import BrokerUrl, parse_url
from wire.topics import Topics

LIMIT_S = 20.0


class Bare(Talker):
    """One such client, connected inside a `with`."""

    def __init__(self, url: BrokerUrl, name: str) -> None:
        super().__init__(__name__, [str(url), name])
        self._name = name

    def pass_to(self, other: Bare, nbytes: int) -> float:
        """Seconds from handing bytes to one client until the other has them."""
        begun = self.ask(f"send {other._name} {nbytes}")["sent_s"]
        return float(other.ask("receive")["received_s"]) - float(begun)


def main(url: BrokerUrl, name: str) -> None:
    topics, came = Topics(), queue.SimpleQueue[float]()
    ready = threading.Event()
    client = paho.Client(
        CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv5
    )
    client.username_pw_set(url.user, url.secret)
    client.on_socket_open = lambda _client, _data, link: tune(link)
    client.on_subscribe = lambda *_: ready.set()
    client.on_message = lambda *_: came.put(time.monotonic())
    client.connect(url.host, url.port)
    client.subscribe(topics.inbox(name), qos=1)
    client.loop_start()
    if not ready.wait(LIMIT_S):
        sys.exit(f"{name} cannot subscribe at {url.shown}")
    _say({})
    for line in sys.stdin:
        word, *rest = line.split()
        _say(_sent(client, topics.data(rest[0], name), rest[1]) if word == "send" else _got(came))
    client.disconnect()
    client.loop_stop()


def _sent(client: paho.Client, topic: str, nbytes: str) -> dict[str, float]:
    payload = os.urandom(int(nbytes))
    begun = time.monotonic()
    client.publish(topic, payload, qos=1)
    return {"sent_s": begun}


def _got(came: queue.SimpleQueue[float]) -> dict[str, float]:
    return {"received_s": came.get(timeout=LIMIT_S)}


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(parse_url(sys.argv[1]), sys.argv[2])
