"""What somebody without an account may send: to the broker's door and to the store's.

Each knock is a connection of its own. It stays open for a while, whether the other side waits for
more of it or has answered; the oldest is closed when there are too many.
"""

from __future__ import annotations

import base64
import contextlib
import socket
from collections import deque
from random import Random

from benchmarks.crowd import packets
from wire.broker_url import BrokerUrl

OPEN_AT_ONCE = 300
CONNECT_LIMIT_S = 2.0
HUGE_LENGTH = b"\xff\xff\xff\x7f"  # the most that MQTT can announce
DIGEST = "0" * 64


class Knocks:
    """`device`: a user with a right to read the store, for requests that are only malformed."""

    def __init__(self, broker: BrokerUrl, store: tuple[str, int], device: BrokerUrl) -> None:
        self._broker = (broker.host, broker.port)
        self._store = store
        secret = f"{device.user}:{device.secret}".encode()
        self._login = b"Authorization: Basic " + base64.b64encode(secret) + b"\r\n"
        self._open: deque[socket.socket] = deque()
        self.refused = 0

    def knock(self, random: Random) -> None:
        """At one of the doors, with one of the things that are wrong there."""
        door, said = random.choice(
            ((self._broker, random.choice(_at_broker(random))), (self._store, self._asked(random)))
        )
        try:
            made = socket.create_connection(door, CONNECT_LIMIT_S)
            self._open.append(made)
            made.sendall(said)
        except OSError:
            self.refused += 1
        while len(self._open) > OPEN_AT_ONCE:
            self._close()

    def _asked(self, random: Random) -> bytes:
        said = random.choice(_REQUESTS)
        return said.replace(b"\r\n\r\n", b"\r\n" + self._login + b"\r\n", random.randint(0, 1))

    def close(self) -> None:
        while self._open:
            self._close()

    def _close(self) -> None:
        with contextlib.suppress(OSError), self._open.popleft() as oldest:
            oldest.setblocking(False)
            oldest.recv(1 << 16)  # what was answered, so that closing is no reset


def _at_broker(random: Random) -> tuple[bytes, ...]:
    wrong = packets.connect("outsider", "phone-1", "no secret")
    return (
        wrong,
        packets.connect("orchestrator", "orchestrator", "no secret"),
        packets.connect("x" * 20_000, "nobody", "no secret"),
        wrong[: random.randrange(len(wrong))],
        b"",
        random.randbytes(100),
        packets.publish("crowdpipe/v1/orchestrator/state", b"{}"),
        b"\x10" + HUGE_LENGTH + wrong[2:],
        b"GET / HTTP/1.1\r\n\r\n",
    )


_REQUESTS = (
    b"",
    b"GET",
    b"GET /blobs/" + DIGEST.encode() + b" HTTP/1.1\r\nHost: x\r\n",
    b"GET /blobs/" + DIGEST.encode() + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /blobs/../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /blobs/%00%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /blobs/" + b"f" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /manifests/\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /manifests HTTP/1.1\r\nHost: x\r\nRange: bytes=99999999999999999999-\r\n\r\n",
    b"GET /blobs HTTP/1.1\r\nHost: x\r\nAuthorization: Basic !!!\r\n\r\n",
    b"GET /blobs HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    b"GET /health HTTP/9.9\r\n\r\n",
    b"PUT /blobs/"
    + DIGEST.encode()
    + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    b"PUT /manifests/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
    b"PUT /manifests/x HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n{}",
    b"DELETE /manifests/x HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /manifests HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\0" * 1_000,
)
