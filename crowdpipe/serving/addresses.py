"""Which address of this machine others reach: what is printed for people to type on a phone."""

from __future__ import annotations

import socket

from wire.errors import UserError

WILDCARDS = frozenset({"0.0.0.0", "::", ""})
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
FAR_AWAY = ("192.0.2.1", 9)  # a documentation address (RFC 5737): nothing is sent to it


def reached_from_outside(host: str) -> str:
    """`host` itself, or for a wildcard this machine's address on its default network."""
    return own_address() if host in WILDCARDS else host


def own_address() -> str:
    """The address from which this machine would speak to the outside; loopback without any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(FAR_AWAY)  # of UDP: it only chooses a route
        except OSError:
            return "127.0.0.1"
        address: str = probe.getsockname()[0]
        return address


def check_own(host: str) -> None:
    """`UserError` if nothing can listen on `host` here."""
    try:
        found = socket.getaddrinfo(host or "0.0.0.0", 0, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found[:1]:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
    except OSError as error:
        raise UserError(
            f"nothing can listen on {host!r}: {error.strerror}; --host takes an address of this "
            f"machine, such as {own_address()}, or 0.0.0.0 for all"
        ) from None


def only_this_machine(host: str) -> bool:
    return host in LOOPBACK
