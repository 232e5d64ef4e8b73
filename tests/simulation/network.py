"""A broker and the way to it, as far as the machines can tell: a list of messages in flight.

Topics are `<kind>/<name>`. Messages on one topic keep their order, those on different topics do
not. The weather decides which messages are lost, come twice or late; retained ones are only lost
with the broker itself, and repeated in their order, as MQTT has it. Others may be repeated late.
Records pass through their JSON, as they would outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.clockwork import Clockwork

HOP_S = 0.002
SESSION_LIMIT = 1000  # messages kept for a session that is away; beyond, the newest are lost
TO_ORCHESTRATOR = ("state", "telemetry", "residency", "events", "assignment", "requests")
TO_NAMED = ("assignment", "commands", "responses", "data")


@dataclass
class Weather:
    """Chances per delivery, and the longest extra delay in seconds."""

    loss: float = 0.0
    doubling: float = 0.0
    delay_s: float = 0.0
    random: Random = field(default_factory=lambda: Random(0))


@dataclass(frozen=True)
class Message:
    topic: str
    payload: Any
    retained: bool = False

    @property
    def kind(self) -> str:
        return self.topic.partition("/")[0]

    @property
    def name(self) -> str:
        return self.topic.partition("/")[2]


@dataclass
class Session:
    """A client at the broker. `life` rises with each clean start: what was under way to an
    earlier life is gone."""

    receive: Callable[[Message], None]
    life: int = 0
    online: bool = False
    will: Message | None = None
    kept: list[Message] = field(default_factory=list)
    last_at: dict[str, float] = field(default_factory=dict)


class Broker:
    def __init__(self, clock: Clockwork) -> None:
        self.clock = clock
        self.weather = Weather()
        self.retained: dict[str, Message] = {}
        self.sessions: dict[str, Session] = {}
        self.epoch = 0
        self.lost = 0

    # clients

    def connect(
        self,
        client: str,
        receive: Callable[[Message], None],
        will: Message | None = None,
        clean: bool = False,
    ) -> None:
        """Takes the session over from an earlier connection, whose will is then said."""
        session = self.sessions.setdefault(client, Session(receive))
        if session.online:
            self.drop(client)
        session.receive, session.will, session.online = receive, will, True
        if clean:
            session.life += 1
            session.kept, session.last_at = [], {}
        kept, session.kept = session.kept, []
        for message in kept:
            self._deliver(client, message)
        for message in list(self.retained.values()):
            if client in self._readers(message):
                self._deliver(client, Message(message.topic, message.payload, True))

    def drop(self, client: str, gracefully: bool = False) -> None:
        """The connection is gone; unless gracefully, the will is said."""
        session = self.sessions.get(client)
        if session is None or not session.online:
            return
        session.online = False
        will, session.will = session.will, None
        if will is not None and not gracefully:
            self._accept(will, keep=True)

    def is_online(self, client: str) -> bool:
        session = self.sessions.get(client)
        return session is not None and session.online

    def crash(self, keep_retained: bool) -> None:
        """Everything under way is gone, sessions too; the clients see their connections end."""
        self.epoch += 1
        if not keep_retained:
            self.retained.clear()
        self.sessions.clear()

    # messages

    def publish(self, client: str, topic: str, payload: Any, keep: bool = False) -> None:
        """A message of somebody who is not connected goes nowhere."""
        if self.is_online(client):
            self._accept(Message(topic, payload), keep)

    def clear(self, client: str, topic: str) -> None:
        """Nothing is retained there any more; who listens hears that."""
        if self.is_online(client):
            self._accept(Message(topic, None), keep=True)
            del self.retained[topic]

    def _accept(self, message: Message, keep: bool) -> None:
        if keep:
            self.retained[message.topic] = message
        for client in self._readers(message):
            if not keep and self._chance(self.weather.loss):
                self.lost += 1
                continue
            self._deliver(client, message)
            if self._chance(self.weather.doubling):
                self._deliver(client, message, again=not keep)

    def _readers(self, message: Message) -> list[str]:
        readers = [message.name] if message.kind in TO_NAMED else []
        if message.kind in TO_ORCHESTRATOR:
            readers.append("orchestrator")
        if message.kind == "state":
            readers.append(message.name)
        if message.kind == "orchestrator":
            readers = sorted(self.sessions)
        return [reader for reader in readers if reader in self.sessions]

    def _chance(self, share: float) -> bool:
        return share > 0 and self.weather.random.random() < share

    def _deliver(self, client: str, message: Message, again: bool = False) -> None:
        session = self.sessions[client]
        delay_s = HOP_S + (self.weather.random.random() * self.weather.delay_s)
        due_at = self.clock.now + delay_s * (3 if again else 1)
        if not again:
            due_at = max(due_at, session.last_at.get(message.topic, 0.0))
            session.last_at[message.topic] = due_at
        life, epoch = session.life, self.epoch
        self.clock.at(due_at, lambda: self._arrive(client, message, life, epoch))

    def _arrive(self, client: str, message: Message, life: int, epoch: int) -> None:
        session = self.sessions.get(client)
        if session is None or session.life != life or self.epoch != epoch:
            self.lost += 1
        elif session.online:
            session.receive(message)
        elif len(session.kept) < SESSION_LIMIT:
            session.kept.append(message)
        else:
            self.lost += 1
