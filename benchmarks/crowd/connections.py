"""Devices of a crowd as real connections to a broker, in a process of its own.

    python -m benchmarks.crowd.connections BROKER SECRET

It reads a line, does what it says, and answers in a line: `connect N` has N devices come and stay;
`say COUNT SECONDS` has them say so much telemetry in so long, evenly; `rest SECONDS` lets time
pass; `retain FIRST END` leaves what the devices of these numbers, who are not there, have retained.
Those that stay answer pings and reports meanwhile. One secret is everybody's.
"""

from __future__ import annotations

import itertools
import json
import selectors
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.crowd import packets
from benchmarks.crowd.device import FORMER_STAMP
from benchmarks.crowd.words import BORN_S, Words
from benchmarks.talker import Talker
from wire.broker_url import BrokerUrl, parse_url
from wire.errors import BrokerUnreachable
from wire.messages.commands import CommandBatch, Ping, Report
from wire.messages.events import Inventory, Pong
from wire.record import decode
from wire.topics import ORCHESTRATOR

LIMIT_S = 10.0  # for the broker to answer
READ_NBYTES = 1 << 16
TOGETHER = 50  # so many devices come before their answers are awaited
REFUSED = 0x80


class Connections(Talker):
    """Such a process, inside a `with`."""

    def __init__(self, url: BrokerUrl, secret: str) -> None:
        super().__init__(__name__, [str(url), secret])


class Line:
    """One user's connection; `hear` before each answer that is needed."""

    def __init__(self, url: BrokerUrl, name: str) -> None:
        self.name = name
        self.numbers: Iterator[int] = itertools.cycle(range(1, 1 << 16))
        self.socket = socket.create_connection((url.host, url.port), LIMIT_S)
        self._incoming = packets.Incoming()

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def hear(self) -> Iterator[packets.Packet]:
        """What the broker has sent. Raises `BrokerUnreachable` if it refused something."""
        data = self.socket.recv(READ_NBYTES)
        if not data:
            raise BrokerUnreachable(f"the broker has closed the connection of {self.name}")
        for packet in self._incoming.feed(data):
            if packet.code >= REFUSED:
                raise BrokerUnreachable(f"the broker refused {self.name} (code {packet.code})")
            yield packet


class Device:
    """One device that comes and stays; `ready` once all that it retains is on its way."""

    def __init__(self, number: int, url: BrokerUrl, secret: str) -> None:
        self.ready = False
        self._line = Line(url, "")
        self._words = words = Words(number, self._line.numbers)
        self._line.name = name = words.name
        filters = (words.topic("assignment"), words.topic("commands"))
        hello = packets.connect(name, name, secret, words.will())
        self._line.say(hello + packets.subscribe(filters))

    @property
    def socket(self) -> socket.socket:
        return self._line.socket

    def say_telemetry(self, uptime_s: float) -> None:
        self._line.say(self._words.telemetry(uptime_s))

    def hear(self) -> None:
        """Read what is there, and answer it."""
        for packet in self._line.hear():
            if packet.kind == packets.SUBACK:
                self._line.say(self._words.retained())
                self.ready = True
            elif packet.kind == packets.PUBLISH:
                self._take(packet)

    def _take(self, packet: packets.Packet) -> None:
        if packet.number:
            self._line.say(packets.puback(packet.number))
        if packet.topic == self._words.topic("commands"):
            self._obey(decode(CommandBatch, packet.payload))

    def _obey(self, batch: CommandBatch) -> None:
        for command in batch.commands:
            if isinstance(command, Ping):
                pong = Pong(command.nonce, time.monotonic())
                self._line.say(self._words.event(pong))
            elif isinstance(command, Report):
                inventory = Inventory(*FORMER_STAMP, (), (), None, (), ())
                self._line.say(self._words.event(inventory))


class Devices:
    """All that stay connected."""

    def __init__(self, url: BrokerUrl, secret: str) -> None:
        self._url = url
        self._secret = secret
        self._devices: list[Device] = []
        self._selector = selectors.DefaultSelector()
        self._turn = 0

    def connect(self, count: int) -> None:
        for first in range(0, count, TOGETHER):
            numbers = range(first, min(first + TOGETHER, count))
            devices = list(map(self._opened, numbers))
            deadline = time.monotonic() + LIMIT_S
            while not all(device.ready for device in devices):
                if time.monotonic() > deadline:
                    raise BrokerUnreachable(f"the broker did not let {count} devices in")
                self._hear(0.1)

    def _opened(self, number: int) -> Device:
        device = Device(number, self._url, self._secret)
        self._devices.append(device)
        self._selector.register(device.socket, selectors.EVENT_READ, device)
        return device

    def say(self, count: int, seconds: float) -> None:
        """The next device's turn comes `seconds / count` after the one before."""
        begun = time.monotonic()
        for number in range(count):
            while (left := begun + number * seconds / count - time.monotonic()) > 0:
                self._hear(left)
            self._devices[self._turn % len(self._devices)].say_telemetry(BORN_S + self._turn)
            self._turn += 1

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._hear(left)

    def _hear(self, limit_s: float) -> None:
        for key, _ in self._selector.select(limit_s):
            key.data.hear()

    def retain(self, first: int, end: int) -> None:
        """In the orchestrator's name, who may write what devices retain (to clear it); it must
        not be there. Ten thousand users would take Mosquitto longer to read than all else."""
        line = Line(self._url, ORCHESTRATOR)
        with line.socket:
            line.say(packets.connect("former", ORCHESTRATOR, self._secret))
            for start in range(first, end, TOGETHER):
                numbers = range(start, min(start + TOGETHER, end))
                devices = [Words(number, line.numbers) for number in numbers]
                line.say(b"".join(each.retained() + each.former_assignment() for each in devices))
                _await_acknowledged(line, 3 * len(devices))
            line.say(packets.DISCONNECT)


def _await_acknowledged(line: Line, count: int) -> None:
    while count > 0:
        count -= sum(packet.kind == packets.PUBACK for packet in line.hear())


def main(url: BrokerUrl, secret: str) -> None:
    devices = Devices(url, secret)
    ways: dict[str, Callable[..., None]] = {
        "connect": lambda count: devices.connect(int(count)),
        "say": lambda count, seconds: devices.say(int(count), float(seconds)),
        "rest": lambda seconds: devices.rest(float(seconds)),
        "retain": lambda first, end: devices.retain(int(first), int(end)),
    }
    _answer({})
    for line in sys.stdin:
        what, *numbers = line.split()
        begun = time.monotonic()
        ways[what](*numbers)
        _answer({"took_s": time.monotonic() - begun})


def _answer(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(parse_url(sys.argv[1]), sys.argv[2])
