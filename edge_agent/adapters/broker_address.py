"""Where the broker is and as whom to connect: `mqtt://user:secret@host:port`.

Reads the address; connecting is `connection`'s work. The secret is percent-encoded in the
address and never shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from wire.errors import UserError

DEFAULT_PORTS = {"mqtt": 1883, "mqtts": 8883}
EXAMPLE = "mqtt://pixel-7:SECRET@192.168.1.10:1883"


class InvalidAddress(UserError):
    """The broker's address cannot be read."""

    kind = "invalid_url"


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """`tls` for `mqtts://`, checked against the system's certificates."""

    host: str
    port: int
    tls: bool = False
    user: str | None = None
    secret: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The address as it may be printed."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        login = f"{self.user}@" if self.user else ""
        return f"{'mqtts' if self.tls else 'mqtt'}://{login}{host}:{self.port}"


def parse_address(text: str) -> BrokerAddress:
    """`text` as an address; `InvalidAddress` says what is wrong with it."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidAddress(f"broker address: {error}; write it as {EXAMPLE}") from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise InvalidAddress(f"broker address {_hidden(text)!r}: write it as {EXAMPLE}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InvalidAddress(f"the broker's address ends after the port, as in {EXAMPLE}")
    return BrokerAddress(
        host=parts.hostname,
        port=DEFAULT_PORTS[parts.scheme] if port is None else port,
        tls=parts.scheme == "mqtts",
        user=None if parts.username is None else unquote(parts.username),
        secret=None if parts.password is None else unquote(parts.password),
    )


def _hidden(text: str) -> str:
    """The address without what stands before its @."""
    scheme, found, rest = text.partition("://")
    return f"{scheme}{found}{rest.rpartition('@')[2]}" if found else text.rpartition("@")[2]
