"""What one device of a crowd publishes, as packets for the broker."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.crowd import packets
from benchmarks.crowd.device import (
    FORMER_STAMP,
    boot_of,
    connection_of,
    name_of,
    residency_of,
    state_of,
    telemetry_of,
)
from wire.messages.assignment import Assignment
from wire.messages.events import DeviceEvent, EventBatch
from wire.record import encode
from wire.topics import Topics

TOPICS = Topics()
BORN_S = 1000.0  # how long it was up when it connected


class Words:
    """`numbers`: the packet numbers of the connection that they go over."""

    def __init__(self, number: int, numbers: Iterator[int]) -> None:
        self.name = name_of(number)
        self._number = number
        self._numbers = numbers
        self._connection = connection_of(self.name, 1)
        self._said = 0

    def topic(self, leaf: str) -> str:
        return TOPICS.device(self.name, leaf)

    def will(self) -> tuple[str, bytes]:
        return self.topic("state"), encode(state_of(self._number, self._connection, "offline"))

    def retained(self) -> bytes:
        """All that an agent says when it connects."""
        state = encode(state_of(self._number, self._connection))
        residency = encode(residency_of(self._connection))
        return (
            self._message("state", state, retain=True)
            + self.telemetry(BORN_S)
            + self._message("residency", residency, retain=True)
        )

    def former_assignment(self) -> bytes:
        """What an orchestrator of before left with it."""
        return self._message("assignment", encode(Assignment(*FORMER_STAMP, "")), retain=True)

    def telemetry(self, uptime_s: float) -> bytes:
        said = encode(telemetry_of(self._number, self._connection, uptime_s))
        return packets.publish(self.topic("telemetry"), said, retain=True)

    def event(self, event: DeviceEvent) -> bytes:
        self._said += 1
        batch = EventBatch(boot_of(self.name), self._connection, self._said, (event,))
        return self._message("events", encode(batch))

    def _message(self, leaf: str, payload: bytes, retain: bool = False) -> bytes:
        topic, number = self.topic(leaf), next(self._numbers)
        return packets.publish(topic, payload, number=number, retain=retain)
