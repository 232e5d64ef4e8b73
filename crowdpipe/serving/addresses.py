"""Which address of this machine others reach: what is printed for people to type on a phone."""

from __future__ import annotations

import ipaddress
import socket

import psutil

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


def names_of_desk(host: str) -> list[str]:
    """All by which a desk that listens on `host` may be reached: what it is called, here and in a
    network that has no name server, and its addresses."""
    called = socket.gethostname()
    names = {"localhost", *LOOPBACK, called, called.partition(".")[0] + ".local"}
    found = (entry.address for entries in psutil.net_if_addrs().values() for entry in entries)
    names |= {each for each in found if _reachable(each)}
    names |= set() if host in WILDCARDS else {host}
    return sorted(name for name in names if name.isascii() and name.strip("."))


def _reachable(text: str) -> bool:
    """Not what only its own cable knows, nor a network card's own address."""
    try:
        return not ipaddress.ip_address(text).is_link_local
    except ValueError:
        return False


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
    """Whether no other machine reaches what listens on `host`."""
    try:
        return host in LOOPBACK or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
