"""Knock at a broker's door: connect, log in over MQTT 5, leave.

Tells a broker that is up from a port that somebody else holds, and an accepted credential from
a refused one. Speaks only CONNECT, CONNACK and DISCONNECT (OASIS MQTT 5.0, sections 3.1, 3.2
and 3.14), by hand: paho takes every odd answer for a lost connection, and the broker's own image
needs the standard library only. All else is the work of `bus.connection`.
"""

from __future__ import annotations

import socket

from bus.tls_probe import speaks_tls
from bus.trust import NO_TLS_THERE, ONLY_TLS_THERE, Trust, is_no_tls
from wire.broker_url import NO_BROKER_THERE, BrokerUrl
from wire.errors import BrokerUnreachable, Refused
from wire.ids import mint

KEEPALIVE_S = 10
CLEAN_START = 0x02
WITH_PASSWORD = 0x40
WITH_USER = 0x80
BAD_LOGIN_CODES = frozenset({0x86, 0x87})  # bad user name or password; not authorised
OLD_VERSION_CODES = frozenset({0x01, 0x84})  # as MQTT 3.1.1 says it, and as MQTT 5 does
DISCONNECT = b"\xe0\x00"


def knock(url: BrokerUrl, limit_s: float = 5.0) -> None:
    """Return if the broker at `url` lets the URL's user in.

    Raises `Refused` if it answers that it does not, `BrokerUnreachable` if no broker answers, and
    `Untrusted` if it cannot prove to be the one that the address names.
    """
    try:
        code = _connack_code(url, limit_s)
    except OSError as error:
        raise _unanswered(url, error) from None
    if code in BAD_LOGIN_CODES:
        raise Refused(f"the broker at {url.shown} refused the user name or secret")
    if code in OLD_VERSION_CODES:
        raise BrokerUnreachable(
            f"the broker at {url.shown} does not speak MQTT 5; use one that does, as Mosquitto 2"
        )
    if code != 0:
        raise BrokerUnreachable(f"the broker at {url.shown} refused to connect (code {code})")


def _unanswered(url: BrokerUrl, error: OSError) -> BrokerUnreachable:
    why = f"{error.strerror or error}; check that it runs, and its address"
    if not url.tls and isinstance(error, ConnectionError) and speaks_tls(url.host, url.port):
        why = ONLY_TLS_THERE
    return BrokerUnreachable(f"no broker answers at {url.shown}: {why}")


def _connack_code(url: BrokerUrl, limit_s: float) -> int:
    with socket.create_connection((url.host, url.port), timeout=limit_s) as plain:
        link = _over_tls(plain, url) if url.tls else plain
        with link:
            link.sendall(connect_packet(url.user, url.secret))
            head = _exactly(link, 4)
            if head[0] != 0x20:
                raise BrokerUnreachable(f"there is no broker at {url.shown}: {NO_BROKER_THERE}")
            if head[3] == 0:
                link.sendall(DISCONNECT)
            return head[3]


def _over_tls(plain: socket.socket, url: BrokerUrl) -> socket.socket:
    trust = Trust(url.authority)
    try:
        trust.learn(url.host, url.port)
        return trust.context.wrap_socket(plain, server_hostname=url.host)
    except OSError as error:
        if is_no_tls(error):
            raise BrokerUnreachable(f"there is no broker at {url.shown}: {NO_TLS_THERE}") from None
        raise trust.explained(error, f"the broker at {url.shown}", url.host) or error from None


def _exactly(link: socket.socket, nbytes: int) -> bytes:
    data = b""
    while len(data) < nbytes:
        more = link.recv(nbytes - len(data))
        if not more:
            raise ConnectionError("the connection was closed before an answer")
        data += more
    return data


def connect_packet(user: str | None, secret: str | None) -> bytes:
    """A CONNECT packet with a fresh client id and no properties."""
    flags = CLEAN_START
    flags |= WITH_USER if user is not None else 0
    flags |= WITH_PASSWORD if secret is not None else 0
    texts = [f"knock-{mint()}", *(text for text in (user, secret) if text is not None)]
    header = _text("MQTT") + bytes([5, flags]) + KEEPALIVE_S.to_bytes(2, "big") + b"\x00"
    body = header + b"".join(map(_text, texts))
    return b"\x10" + _variable_length(len(body)) + body


def _text(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0xFFFF:
        raise BrokerUnreachable("a user name or secret is longer than MQTT allows (65535 bytes)")
    return len(data).to_bytes(2, "big") + data


def _variable_length(number: int) -> bytes:
    """Seven bits a byte, low ones first, the top bit says that more follow."""
    digits = bytearray()
    while True:
        number, low = divmod(number, 128)
        digits.append(low | (0x80 if number else 0))
        if not number:
            return bytes(digits)
