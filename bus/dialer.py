"""Connects a client: opens its socket in a thread of its own, and says CONNECT over it.

To find a name's address, to connect and to agree on TLS may take seconds each, and nothing can
end them early; the client's owner waits for none of them. The thread lives for one attempt. One
that its owner has given up meanwhile goes on to its end, and serves whoever asks next: there is
never more than one. When to try again is the owner's affair.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from paho.mqtt.packettypes import PacketTypes

from bus.buffered_socket import BufferedSocket
from bus.connection_policy import ConnectionPolicy
from bus.message_properties import new_properties, properties_of
from bus.paho_client import Client
from bus.tls_probe import speaks_tls
from bus.trust import ONLY_TLS_THERE
from wire.broker_url import BrokerUrl
from wire.errors import BrokerUnreachable
from wire.outbox import Message

KEEPALIVE_S = 60
SESSION_EXPIRY_S = 300


class Dialer:
    """`wake` is called in the dialing thread when it is done. All else is for the owner's thread.
    `dials`: an attempt was begun and has not come to its CONNECT yet. `answered`, which the owner
    sets: to the last CONNECT there was an answer. Without one, the next attempt finds out first
    whether TLS is all that is spoken there."""

    def __init__(
        self,
        client: Client,
        broker: BrokerUrl,
        policy: ConnectionPolicy,
        wake: Callable[[], None],
    ) -> None:
        self._client = client
        self._broker = broker
        self._policy = policy
        self._wake = wake
        self._thread: threading.Thread | None = None
        self._socket: BufferedSocket | None = None
        self._error: Exception | None = None
        self.dials = False
        self.answered = True
        self._doubts = False

    def begin(self, will: Message | None, resumes: bool) -> None:
        """`resumes`: the broker may have kept our session, and it goes on."""
        self._set_will(will)
        properties = new_properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = SESSION_EXPIRY_S
        properties.MaximumPacketSize = self._policy.largest_packet_nbytes
        self._client.connect_async(
            self._broker.host,
            self._broker.port,
            KEEPALIVE_S,
            clean_start=not resumes,
            properties=properties,
        )
        self.dials = True
        if self._thread is None or not self._thread.is_alive():
            self.close()
            self._doubts = not (self.answered or self._broker.tls)
            self._thread = threading.Thread(target=self._open, name="dialer", daemon=True)
            self._thread.start()

    def proceed(self) -> None:
        """Say CONNECT, if the socket is there. Raises what opening it raised: `OSError`,
        `ValueError` of a host that is no name, `BrokerUnreachable` and `Untrusted`."""
        error, link = self._error, self._socket
        self._error = self._socket = None
        if error is not None:
            raise error
        if link is not None:
            self.dials = self.answered = False
            self._client.connect_through(link)

    def close(self) -> None:
        """What nobody took is of no use."""
        link, self._socket, self._error = self._socket, None, None
        if link is not None:
            with contextlib.suppress(OSError):
                link.close()

    def _set_will(self, will: Message | None) -> None:
        if will is None:
            self._client.will_clear()
            return
        self._client.will_set(will.topic, will.payload, will.qos, will.retain, properties_of(will))

    def _open(self) -> None:
        try:
            if self._doubts and speaks_tls(self._broker.host, self._broker.port):
                raise BrokerUnreachable(ONLY_TLS_THERE)
            self._socket = self._client.open_socket()
        except Exception as error:  # for `proceed`
            self._error = error
        self._wake()
