"""The first steps to the broker: its name's addresses, and whether something listens there."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import Any

from edge_agent.diagnosis.facts import HostAddresses, PortKnock, PortKnocks
from wire.broker_url import BrokerUrl

KNOCK_LIMIT_S = 2.0
NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL)


def addresses_of(broker: BrokerUrl) -> HostAddresses:
    """Waits as long as the system does: give it a limit from outside."""
    try:
        found = socket.getaddrinfo(broker.host, broker.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        said = str(getattr(error, "strerror", None) or error).lower()
        return HostAddresses(broker.host, (), said)
    return HostAddresses(broker.host, _one_of_each_family(found))


def _one_of_each_family(found: Sequence[tuple[Any, ...]]) -> tuple[str, ...]:
    """In the system's order. More would take too long if none of them answers."""
    first: dict[object, str] = {}
    for family, _, _, _, address in found:
        first.setdefault(family, str(address[0]))
    return tuple(first.values())


def knock_at_port(broker: BrokerUrl, addresses: tuple[str, ...]) -> PortKnocks:
    knocks = tuple(_knock(address, broker.port) for address in addresses)
    return PortKnocks(f"{broker.host}:{broker.port}", knocks)


def _knock(address: str, port: int) -> PortKnock:
    try:
        socket.create_connection((address, port), KNOCK_LIMIT_S).close()
    except ConnectionRefusedError:
        return PortKnock(address, "nobody")
    except TimeoutError:
        return PortKnock(address, "silent")
    except OSError as error:
        if error.errno in NO_ROUTE:
            return PortKnock(address, "no_route")
        return PortKnock(address, "other", str(error.strerror or error))
    return PortKnock(address)
