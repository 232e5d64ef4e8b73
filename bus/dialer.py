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
OUR_RECEIVE_MAXIMUM = 100  # messages that a broker may send before we have acknowledged one
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
        self._guard = threading.Lock()
        self._busy = False
        self._closed = False
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
        properties.ReceiveMaximum = OUR_RECEIVE_MAXIMUM
        self._client.connect_async(
            self._broker.host,
            self._broker.port,
            KEEPALIVE_S,
            clean_start=not resumes,
            properties=properties,
        )
        self.dials = True
        with self._guard:
            if self._busy:
                return
            self._forget()
            self._busy, self._closed = True, False
        self._doubts = not (self.answered or self._broker.tls)
        threading.Thread(target=self._open, name="dialer", daemon=True).start()

    def proceed(self) -> None:
        """Say CONNECT, if the socket is there. Raises what opening it raised: `OSError`,
        `ValueError` of a host that is no name, `BrokerUnreachable` and `Untrusted`."""
        with self._guard:
            error, link = self._error, self._socket
            self._error = self._socket = None
        if error is not None:
            raise error
        if link is not None:
            self.dials = self.answered = False
            self._client.connect_through(link)

    def close(self) -> None:
        """What nobody took is of no use, nor what an attempt that is under way comes to."""
        with self._guard:
            self._closed = True
            self._forget()

    def _forget(self) -> None:
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
        link, failure = None, None
        try:
            if self._doubts and speaks_tls(self._broker.host, self._broker.port):
                raise BrokerUnreachable(ONLY_TLS_THERE)
            link = self._client.open_socket()
        except Exception as error:  # for `proceed`
            failure = error
        with self._guard:
            self._busy, self._socket, self._error = False, link, failure
            if self._closed:
                self._forget()
        self._wake()
