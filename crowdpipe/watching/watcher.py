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

from bus.broker_probe import knock
from bus.connection import Connection
from bus.listener import InboundMessage, Subscription
from crowdpipe.watching.observation import Observation
from wire.broker_url import BrokerUrl
from wire.errors import CrowdpipeError, TimedOut
from wire.ids import mint
from wire.outbox import Message
from wire.topics import Topics

CONNECT_LIMIT_S = 10.0
Answer = TypeVar("Answer")


class Watcher:
    """Connected inside a `with`, which is entered once everything retained was read.

    `clock` stamps arrivals; `hear` gets every message as it came, in the connection's thread, so
    it must not take long.
    """

    def __init__(
        self,
        url: BrokerUrl,
        topics: Topics | None = None,
        clock: Callable[[], float] = time.monotonic,
        hear: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self._url = url
        topics = Topics() if topics is None else topics
        self._clock = clock
        self._hear = hear
        self._changed = threading.Condition()
        self._observation = Observation(topics)
        self._granted = False
        self._failure: CrowdpipeError | None = None
        everything = (Subscription(f"{topics.control_root}/#"),)
        # The answer to a second subscription comes after what is retained under the first.
        again = (Subscription(topics.orchestrator_state),)
        self._connection = Connection(url, f"watcher-{mint(4)}", everything, again, self)

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
        knock(self._url)  # says at once what the connection would try again and again
        self._connection.start()
        try:
            self._await_grant()
        except BaseException:
            self._connection.close(0.0)
            raise
        return self

    def _await_grant(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._granted or self._failure is not None, CONNECT_LIMIT_S
            )
        if self._failure is not None:
            raise self._failure
        if not self._granted:
            raise TimedOut(
                f"waited {CONNECT_LIMIT_S:g} s for the broker at {self._url.shown} to let the "
                "watcher in; check host and port"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close(0.0)

    # --- the connection's listener ------------------------------------------------------------

    def will(self, connection: str) -> Message | None:
        return None

    def connected(self, connection: str, reconnect: bool) -> None:
        with self._changed:
            self._granted = True
            self._changed.notify_all()

    def disconnected(self, reason: str) -> None:
        """It is tried again; meanwhile what was seen last stands."""

    def received(self, message: InboundMessage) -> None:
        now = self._clock()
        with self._changed:
            self._observation.see(message.topic, message.payload, now)
            self._changed.notify_all()
        if self._hear is not None:
            self._hear(message.topic, message.payload)

    def refused(self, topic: str, error: CrowdpipeError) -> None:
        """Nothing is published here."""

    def ended(self, error: CrowdpipeError) -> None:
        with self._changed:
            self._failure = error
            self._changed.notify_all()
