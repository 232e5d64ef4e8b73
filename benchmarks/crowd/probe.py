"""A client that asks the orchestrator something whose answer costs nothing, to see how far it is.

Requests are handled in the order in which they and everything else arrive, so an answer says that
what came before is done with.
"""

from __future__ import annotations

import queue
import time
from types import TracebackType

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable, TimedOut
from wire.messages.requests import RequestPlan, Response
from wire.record import decode, encode
from wire.topics import Topics

PARTY = "clients/{user}/probe"
AGAIN_S = 0.2  # what is asked before it listens is lost
NO_MODEL = "no-such-model"


class Probe:
    """Connected inside a `with`."""

    def __init__(self, url: BrokerUrl) -> None:
        self._url = url
        party, topics = PARTY.format(user=url.user), Topics()
        self._requests = topics.client(party, "requests")
        self._responses = topics.client(party, "responses")
        self._answers = queue.SimpleQueue[str]()
        self._asked = 0
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id="probe", protocol=MQTTProtocolVersion.MQTTv5
        )

    def __enter__(self) -> Probe:
        self._client.username_pw_set(self._url.user, self._url.secret)
        self._client.on_message = self._hear
        self._client.on_connect = self._listen
        try:
            self._client.connect(self._url.host, self._url.port, clean_start=True)
        except OSError as error:
            raise BrokerUnreachable(f"no broker answers at {self._url.shown}: {error}") from None
        self._client.loop_start()
        return self

    def _listen(self, client: paho.Client, *_: object) -> None:
        """Each time: a broker that was killed has forgotten it."""
        client.subscribe(self._responses, qos=1)

    def _hear(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        response = decode(Response, message.payload)
        self._answers.put(getattr(response, "request", ""))

    def wait(self, limit_s: float) -> None:
        """Return once a question that was asked after this call is answered; `TimedOut` if none
        is."""
        first, end = self._asked + 1, time.monotonic() + limit_s
        while time.monotonic() < end:
            self._ask()
            if self._answered(first):
                return
        raise TimedOut(f"the orchestrator did not answer within {limit_s:g} s")

    def _ask(self) -> None:
        self._asked += 1
        asked = RequestPlan(f"probe-{self._asked}", NO_MODEL)
        self._client.publish(self._requests, encode(asked), qos=1)

    def _answered(self, first: int) -> bool:
        try:
            answered = self._answers.get(timeout=AGAIN_S)
        except queue.Empty:
            return False
        return int(answered.rpartition("-")[2]) >= first

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()
