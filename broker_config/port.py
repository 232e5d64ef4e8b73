"""Ports: a free one, and how to tell that one is taken."""

from __future__ import annotations

import socket

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def free_port(host: str) -> int:
    """A port that was free a moment ago. Another may take it meanwhile: try again then."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(host: str, port: int) -> bool:
    """Whether somebody could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a broker's listener does
        try:
            probe.bind((host, port))
        except (OSError, OverflowError):
            return False
        return True


def reachable_host(host: str) -> str:
    """The host under which a listener on `host` is reached from the same machine."""
    return WILDCARDS.get(host, host)
