"""Broker addresses: `mqtt://user:secret@host:port`, or `mqtts://` for TLS.

A broker that limits packets without announcing it has `?packet_nbytes=131072` at the end. Whose
word is taken for who answers there, if not that of the authorities the system knows, is named by
`?authority=sha256:…`, that authority's fingerprint, or by the file of its certificate. Reads and
writes addresses; connecting is others' work. The secret is percent-encoded in the address and left
out wherever an address is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict
from urllib.parse import quote, unquote, urlsplit

from wire.authority import FINGERPRINT, is_fingerprint
from wire.errors import InvalidUrl

DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}
EXAMPLE = "mqtt://name:secret@host:1883"
PACKET_LIMIT = "packet_nbytes="
AUTHORITY = "authority="
LEAST_PACKET_NBYTES = 8 << 10  # below that, little of a packet would be ours
NO_BROKER_THERE = "what answers there does not speak MQTT 5; check host and port"


@dataclass(frozen=True, slots=True)
class BrokerUrl:
    """Where a broker is, and as whom to connect. `repr` and `shown` leave the secret out."""

    host: str
    port: int
    tls: bool = False
    user: str | None = None
    secret: str | None = None
    packet_nbytes: int | None = None
    authority: str | None = None

    def __str__(self) -> str:
        """The whole address, secret included: for configuration, not for screens."""
        login = "" if self.user is None else quote(self.user, safe="")
        if self.user is not None and self.secret is not None:
            login += ":" + quote(self.secret, safe="")
        return self._with(f"{login}@" if login else "", self.authority)

    def __repr__(self) -> str:
        return f"BrokerUrl({self.shown!r})"

    @property
    def shown(self) -> str:
        """The address as it may be printed."""
        return self._with("" if self.user is None else f"{quote(self.user, safe='')}@")

    def _with(self, login: str, authority: str | None = None) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        said = [] if self.packet_nbytes is None else [f"{PACKET_LIMIT}{self.packet_nbytes}"]
        said += [] if authority is None else [AUTHORITY + quote(authority, safe="/:")]
        query = "?" + "&".join(said) if said else ""
        return f"{'mqtts' if self.tls else 'mqtt'}://{login}{host}:{self.port}{query}"

    def login(self, user: str, secret: str) -> BrokerUrl:
        """The same broker, as another user."""
        return replace(self, user=user, secret=secret)


def parse_url(text: str) -> BrokerUrl:
    """`text` as a `BrokerUrl`; `InvalidUrl` says what is wrong. The port has a default."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidUrl(f"broker address: {error}; write it as {EXAMPLE}") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise InvalidUrl(f"broker address must begin with mqtt:// or mqtts://, as in {EXAMPLE}")
    if not parts.hostname:
        raise InvalidUrl(f"broker address names no host; write it as {EXAMPLE}")
    if parts.path not in ("", "/") or parts.fragment:
        raise InvalidUrl(f"broker address ends after the port; write it as {EXAMPLE}")
    return BrokerUrl(
        host=parts.hostname,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        tls=parts.scheme == "mqtts",
        user=None if parts.username is None else unquote(parts.username),
        secret=None if parts.password is None else unquote(parts.password),
        **_said_after(parts.query),
    )


class _Said(TypedDict, total=False):
    packet_nbytes: int
    authority: str


def _said_after(query: str) -> _Said:
    said = _Said()
    for part in query.split("&") if query else ():
        if part.startswith(AUTHORITY):
            said["authority"] = _authority(unquote(part.removeprefix(AUTHORITY)))
        else:
            said["packet_nbytes"] = _packet_limit(part)
    return said


def _authority(text: str) -> str:
    if text.lower().startswith(FINGERPRINT):
        text = text.lower()
        if not is_fingerprint(text):
            raise InvalidUrl(
                f"broker address: an authority's fingerprint is {FINGERPRINT} and 64 digits from 0 "
                f"to f, as in {EXAMPLE}?{AUTHORITY}{FINGERPRINT}…; it may have been cut off"
            )
    if not text or not text.isprintable():
        raise InvalidUrl(f"broker address names no authority, as in {EXAMPLE}?{AUTHORITY}FILE")
    return text


def _packet_limit(text: str) -> int:
    number = text.removeprefix(PACKET_LIMIT)
    if number == text or not number.isdecimal() or int(number) < LEAST_PACKET_NBYTES:
        raise InvalidUrl(
            f"broker address: only the broker's authority and largest packet may follow the port, "
            f"the latter from {LEAST_PACKET_NBYTES} up, as in {EXAMPLE}?{PACKET_LIMIT}131072"
        )
    return int(number)
