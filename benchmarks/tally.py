"""Counts messages from outside: one MQTT client for each user whose topics are asked for.

    python -m benchmarks.tally '[["mqtt://user:secret@127.0.0.1:1883", "some/topic/#"]]'

A process of its own, so that counting takes nobody's interpreter lock. Each message is counted once
if no topic is asked for twice. It reads a word a line and answers in a line of JSON; it ends when
its input does.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Sequence

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.subscribeoptions import SubscribeOptions

from benchmarks.talker import Talker
from wire.broker_url import BrokerUrl, parse_url
from wire.topics import ORCHESTRATOR, Topics

LIMIT_S = 20.0
FRAMES_IN, FRAMES_OUT = "frames in", "frames out"


class Tally(Talker):
    """Listens inside a `with`."""

    def __init__(self, filters: Sequence[tuple[BrokerUrl, str]]) -> None:
        super().__init__(__name__, [json.dumps([[str(url), each] for url, each in filters])])

    def counts(self) -> Counter[str]:
        """Messages so far by kind: a control topic's name in the table, or which way frames go."""
        return Counter(self.ask("count"))


# --- in the process itself --------------------------------------------------------------------


def kind_of(topic: str, topics: Topics) -> str:
    """As the orchestrator has it: `frames in` are those to it."""
    if not topics.is_data(topic):
        return topics.parse(topic).name
    return FRAMES_IN if topics.sender(topic)[0] == ORCHESTRATOR else FRAMES_OUT


class _Listener:
    """All clients together; each has a thread."""

    def __init__(self) -> None:
        self._topics = Topics()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def listen(self, number: int, url: BrokerUrl, wanted: str) -> paho.Client:
        ready = threading.Event()
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"tally-{number}",
            protocol=MQTTProtocolVersion.MQTTv5,
        )
        client.username_pw_set(url.user, url.secret)
        client.on_subscribe = lambda *_: ready.set()
        client.on_message = self._hear
        client.connect(url.host, url.port)
        client.subscribe(wanted, options=SubscribeOptions(qos=0))
        client.loop_start()
        if not ready.wait(LIMIT_S):
            sys.exit(f"{url.user} cannot subscribe at {url.shown}")
        return client

    def _hear(self, _client: paho.Client, _user: object, message: paho.MQTTMessage) -> None:
        kind = kind_of(message.topic, self._topics)
        with self._lock:
            self._counts[kind] += 1

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


def main(argument: str) -> None:
    listener = _Listener()
    clients = [
        listener.listen(number, parse_url(url), wanted)
        for number, (url, wanted) in enumerate(json.loads(argument))
    ]
    print(json.dumps({}), flush=True)
    for _ in sys.stdin:
        print(json.dumps(listener.counts()), flush=True)
    for client in clients:
        client.disconnect()
        client.loop_stop()


if __name__ == "__main__":
    main(sys.argv[1])
