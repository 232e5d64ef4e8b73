"""Which of the known devices cannot be used now, for people who wait for one."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice

from orchestrator.machine.records.device import Device
from orchestrator.machine.records.state import State

NAMES_LIMIT = 5
LOOK_LIMIT = 100  # of so many the first are named
WHY = {"lost": "is offline", "unproven": "does not answer", "draining": "drains"}


def absent(state: State) -> str:
    """In brackets, with why; empty if none is away."""
    known = state.devices.away
    named = nsmallest(NAMES_LIMIT, islice(known, LOOK_LIMIT))
    away = [f"{name} {_why(known[name])}" for name in named]
    more = [f"and {len(known) - NAMES_LIMIT} more"] if len(known) > NAMES_LIMIT else []
    return f" ({', '.join([*away, *more])})" if away else ""


def _why(device: Device) -> str:
    return "has another version" if device.foreign else WHY[device.life.state]
