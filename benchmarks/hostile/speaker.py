"""One user's connection that says what the broker may not like: it comes back when it is closed."""

from __future__ import annotations

import itertools
import select
import socket
import time
from collections.abc import Callable, Iterator

from benchmarks.crowd import packets
from benchmarks.hostile.samples import Message
from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable

LIMIT_S = 10.0
READ_NBYTES = 1 << 16
NOT_AUTHORISED = 0x87
CLIENT_ID = "{user}-hostile"


class Speaker:
    """`denied` counts what the broker took from it and gave to nobody, `closed` how often it was
    sent away. `filters` is what it listens to; `hear` is given that."""

    def __init__(
        self,
        url: BrokerUrl,
        filters: tuple[str, ...] = (),
        hear: Callable[[packets.Packet], None] = lambda packet: None,
    ) -> None:
        self._url = url
        self._filters = filters
        self._tell = hear
        self._numbers: Iterator[int] = itertools.cycle(range(1, 1 << 16))
        self.denied = self.closed = 0
        self._open()

    def _open(self) -> None:
        user, secret = self._url.user or "", self._url.secret or ""
        self._socket = socket.create_connection((self._url.host, self._url.port), LIMIT_S)
        self._incoming = packets.Incoming()
        self._socket.sendall(packets.connect(CLIENT_ID.format(user=user), user, secret))
        self._await_welcome()
        if self._filters:
            self._socket.sendall(packets.subscribe(self._filters))

    def _await_welcome(self) -> None:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            for packet in self._incoming.feed(self._socket.recv(READ_NBYTES)):
                if packet.kind == packets.CONNACK and not packet.code:
                    return
        raise BrokerUnreachable(f"the broker does not let {self._url.user} in")

    def packet_of(self, message: Message) -> bytes:
        number = next(self._numbers) if message.qos else 0
        return packets.publish(message.topic, message.payload, number=number, retain=message.retain)

    def say(self, data: bytes) -> None:
        """One packet or several."""
        try:
            self._socket.sendall(data)
        except OSError:
            self._again()

    def hear(self) -> None:
        """What has come by now."""
        while select.select([self._socket], [], [], 0)[0]:
            try:
                data = self._socket.recv(READ_NBYTES)
            except OSError:
                data = b""
            if not data:
                self._again()
                return
            for packet in self._incoming.feed(data):
                self._take(packet)

    def _take(self, packet: packets.Packet) -> None:
        self.denied += packet.code == NOT_AUTHORISED
        if packet.kind == packets.PUBLISH:
            if packet.number:
                self._socket.sendall(packets.puback(packet.number))
            self._tell(packet)

    def _again(self) -> None:
        self.closed += 1
        self._socket.close()
        self._open()

    def close(self) -> None:
        self._socket.close()
