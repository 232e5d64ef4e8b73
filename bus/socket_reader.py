"""Reads what the broker sends: what came before it waits again, and when the next read is due.

How much is read at once is `buffered_socket`'s affair; what becomes of the messages is the
connection's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import paho.mqtt.client as paho

from bus.buffered_socket import BufferedSocket
from bus.gathering import Gathering
from bus.link import Link
from bus.paho_client import in_a_message
from bus.trickle import Trickle


class SocketReader:
    """Of a client's socket, whichever it has at the time."""

    def __init__(
        self, client: paho.Client, link: Link, may_wait: Callable[[str], bool] | None
    ) -> None:
        self._client = client
        self._trickle = Trickle(link)
        self._gathering = Gathering(may_wait)

    def restart(self) -> None:
        """There is a new connection."""
        self._trickle.restart()
        self._gathering.restart()

    def pause_s(self, now: float) -> float:
        """For so long nothing need be read."""
        return max(self._trickle.pause_s(now), self._gathering.pause_s(now))

    def came(self, topic: str, *, retained: bool) -> None:
        """A message of this topic was read."""
        self._gathering.came(topic, retained=retained)

    def read(self, socket: BufferedSocket) -> None:
        """All that can be had without waiting; each message goes to the client's callback."""
        begun, known_nbytes = time.monotonic(), socket.read_nbytes
        socket.readable()
        self._client.loop_read()
        while self._client.socket() is socket and socket.pending():
            self._client.loop_read()  # `select` cannot see what was read ahead
        now, nbytes = time.monotonic(), socket.read_nbytes - known_nbytes
        self._trickle.read(nbytes, begun, now, unfinished=in_a_message(self._client))
        self._gathering.read(now)
