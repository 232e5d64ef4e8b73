"""Devices of a crowd as real connections to a broker, in a process of its own.

    python -m benchmarks.crowd.connections BROKER SECRET

It reads a line, does what it says, and answers in a line: `retain FIRST END` leaves what the
devices of these numbers, who are away afterwards, have retained; `connect N` has N devices come and
stay; `say COUNT SECONDS` has them say so much telemetry in so long, evenly; `rest SECONDS` lets
time pass.
Meanwhile those that stay answer pings and reports. One secret is every device's.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

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
from benchmarks.talker import Talker
from wire.broker_url import BrokerUrl, parse_url
from wire.errors import BrokerUnreachable, OperatorError
from wire.messages.commands import CommandBatch, Ping, Report
from wire.messages.events import DeviceEvent, EventBatch, Inventory, Pong
from wire.record import decode, encode
from wire.topics import Topics

LIMIT_S = 10.0  # for the broker to answer
READ_NBYTES = 1 << 16
COME_TOGETHER = 50  # so many connections are opened before their answers are awaited
TOPICS = Topics()


class Connections(Talker):
    """Such a process, inside a `with`."""

    def __init__(self, url: BrokerUrl, secret: str) -> None:
        super().__init__(__name__, [str(url), secret])


class Line:
    """One device's connection, after `open`."""

    def __init__(self, number: int, url: BrokerUrl, secret: str) -> None:
        self.number = number
        self.name = name_of(number)
        self.connection = connection_of(self.name, 1)
        self.ready = False
        self.socket = socket.create_connection((url.host, url.port), LIMIT_S)
        self._incoming = packets.Incoming()
        self._secret = secret
        self._said = 0
        self._number = 0

    def open(self) -> None:
        offline = encode(state_of(self.number, self.connection, "offline"))
        will = (TOPICS.device(self.name, "state"), offline)
        leaves = ("assignment", "commands")
        filters = tuple(TOPICS.device(self.name, leaf) for leaf in leaves)
        hello = packets.connect(self.name, self.name, self._secret, will)
        self.socket.sendall(hello + packets.subscribe(filters))

    def retain(self) -> None:
        """Leave all that a device retains, and go without a farewell to the orchestrator."""
        hello = packets.connect(self.name, self.name, self._secret)
        self.socket.sendall(hello + self._retained() + packets.DISCONNECT)

    def gone(self) -> None:
        """Wait until the broker has taken all and closed; `BrokerUnreachable` if it refused."""
        with self.socket:
            while data := self.socket.recv(READ_NBYTES):
                self._check(data)

    def _check(self, data: bytes) -> None:
        for packet in self._incoming.feed(data):
            if packet.code:
                raise BrokerUnreachable(f"the broker refused {self.name} (code {packet.code})")

    def _retained(self) -> bytes:
        state = encode(state_of(self.number, self.connection))
        return self._message("state", state, retain=True) + self._news(1000.0)

    def _news(self, uptime_s: float) -> bytes:
        said = encode(telemetry_of(self.number, self.connection, uptime_s))
        topic = TOPICS.device(self.name, "telemetry")
        residency = encode(residency_of(self.connection))
        telemetry = packets.publish(topic, said, retain=True)
        return telemetry + self._message("residency", residency, retain=True)

    def say_telemetry(self, uptime_s: float) -> None:
        said = encode(telemetry_of(self.number, self.connection, uptime_s))
        topic = TOPICS.device(self.name, "telemetry")
        self.socket.sendall(packets.publish(topic, said, retain=True))

    def hear(self) -> None:
        """Read what is there, and answer it."""
        data = self.socket.recv(READ_NBYTES)
        if not data:
            raise BrokerUnreachable(f"the broker has closed the connection of {self.name}")
        for packet in self._incoming.feed(data):
            self._take(packet)

    def _take(self, packet: packets.Packet) -> None:
        if packet.code >= 0x80:
            raise BrokerUnreachable(f"the broker refused {self.name} (code {packet.code})")
        if packet.kind == packets.SUBACK:
            self.socket.sendall(self._retained())
            self.ready = True
        elif packet.kind == packets.PUBLISH:
            if packet.number:
                self.socket.sendall(packets.puback(packet.number))
            if packet.topic.endswith("/commands"):
                self._answer(decode(CommandBatch, packet.payload))

    def _answer(self, batch: CommandBatch) -> None:
        for command in batch.commands:
            if isinstance(command, Ping):
                self._tell(Pong(command.nonce, time.monotonic()))
            elif isinstance(command, Report):
                self._tell(Inventory(*FORMER_STAMP, (), (), None, (), ()))

    def _tell(self, event: DeviceEvent) -> None:
        self._said += 1
        batch = EventBatch(boot_of(self.name), self.connection, self._said, (event,))
        self.socket.sendall(self._message("events", encode(batch)))

    def _message(self, leaf: str, payload: bytes, retain: bool = False) -> bytes:
        self._number = self._number % 0xFFFF + 1
        topic = TOPICS.device(self.name, leaf)
        return packets.publish(topic, payload, number=self._number, retain=retain)


class Lines:
    """All that stay connected."""

    def __init__(self, url: BrokerUrl, secret: str) -> None:
        self._url = url
        self._secret = secret
        self._lines: list[Line] = []
        self._selector = selectors.DefaultSelector()
        self._turn = 0

    def retain(self, first: int, end: int) -> None:
        for start in range(first, end, COME_TOGETHER):
            numbers = range(start, min(start + COME_TOGETHER, end))
            lines = [Line(number, self._url, self._secret) for number in numbers]
            for line in lines:
                line.retain()
            for line in lines:
                line.gone()

    def connect(self, count: int) -> None:
        for first in range(0, count, COME_TOGETHER):
            numbers = range(first, min(first + COME_TOGETHER, count))
            lines = [self._opened(number) for number in numbers]
            deadline = time.monotonic() + LIMIT_S
            while not all(line.ready for line in lines):
                if time.monotonic() > deadline:
                    raise OperatorError(f"the broker did not let {count} devices in")
                self._hear(0.1)

    def _opened(self, number: int) -> Line:
        line = Line(number, self._url, self._secret)
        line.open()
        self._lines.append(line)
        self._selector.register(line.socket, selectors.EVENT_READ, line)
        return line

    def say(self, count: int, seconds: float) -> None:
        """The next device's turn comes `seconds / count` after the one before."""
        begun = time.monotonic()
        for number in range(count):
            while (left := begun + number * seconds / count - time.monotonic()) > 0:
                self._hear(left)
            self._lines[self._turn % len(self._lines)].say_telemetry(begun + number)
            self._turn += 1

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._hear(left)

    def _hear(self, limit_s: float) -> None:
        for key, _ in self._selector.select(limit_s):
            key.data.hear()


def main(url: BrokerUrl, secret: str) -> None:
    lines = Lines(url, secret)
    ways: dict[str, Callable[..., None]] = {
        "retain": lambda first, end: lines.retain(int(first), int(end)),
        "connect": lambda count: lines.connect(int(count)),
        "say": lambda count, seconds: lines.say(int(count), float(seconds)),
        "rest": lambda seconds: lines.rest(float(seconds)),
    }
    _say({})
    for line in sys.stdin:
        what, *numbers = line.split()
        begun = time.monotonic()
        ways[what](*numbers)
        _say({"took_s": time.monotonic() - begun})


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(parse_url(sys.argv[1]), sys.argv[2])
