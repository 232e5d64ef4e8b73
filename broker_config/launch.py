"""Bring up a broker's child process, on a free port if need be, until it lets us in.

Shared by the brokers that we start; each says how its program is configured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from broker_config.child_process import Child
from broker_config.port import free_port
from broker_config.url import BrokerUrl
from bus.broker_probe import knock
from wire.errors import BrokerUnreachable, PortTaken, Refused

START_LIMIT_S = 10.0
KNOCK_LIMIT_S = 2.0
POLL_S = 0.02
PORT_ATTEMPTS = 8
Started = TypeVar("Started")
ADDRESS_TAKEN = "Address already in use"


def on_a_port(host: str, port: int, start: Callable[[int], Started]) -> Started:
    """`start(port)`; for port 0 with free ones, until one is still free when it is used."""
    if port != 0:
        return start(port)
    for _ in range(PORT_ATTEMPTS - 1):
        try:
            return start(free_port(host))
        except PortTaken:
            continue
    return start(free_port(host))


def lets_in(url: BrokerUrl) -> bool:
    """Whether the broker at `url` lets its user in now."""
    try:
        knock(url, KNOCK_LIMIT_S)
    except (BrokerUnreachable, Refused):
        return False
    return True


def await_welcome(child: Child, url: BrokerUrl, name: str, log: Path, limit_s: float) -> None:
    """Return once `url` lets its user in; says why if `child` ends or the limit passes."""
    deadline = time.monotonic() + limit_s
    while not child.wait(POLL_S):
        if lets_in(url):
            return
        if time.monotonic() > deadline:
            raise BrokerUnreachable(
                f"{name} did not let our own user in within {limit_s:g} s; see {log}"
            )
    raise why_it_ended(child, url, name, log)


def why_it_ended(child: Child, url: BrokerUrl, name: str, log: Path) -> Exception:
    """`PortTaken` or `BrokerUnreachable`, from what the program said last."""
    said = child.output().strip()
    if ADDRESS_TAKEN in said:
        return PortTaken(
            f"port {url.port} on {url.host} is taken by another program; "
            "stop that one or choose another port"
        )
    last = said.splitlines()[-1] if said else "it said nothing"
    return BrokerUnreachable(f"{name} ended (code {child.exit_code}): {last}; see {log}")
