"""Which of the known devices cannot be used now, for people who wait for one."""

from __future__ import annotations

from orchestrator.machine.records.state import State

NAMES_LIMIT = 5
WHY = {"lost": "is offline", "unproven": "does not answer", "draining": "drains"}


def absent(state: State) -> str:
    """In brackets, with why; empty if none is away."""
    away = [
        f"{device.name} {WHY[device.life.state]}"
        for device in sorted(state.devices, key=lambda each: each.name)
        if device.life.state in WHY
    ]
    more = [f"and {len(away) - NAMES_LIMIT} more"] if len(away) > NAMES_LIMIT else []
    return f" ({', '.join([*away[:NAMES_LIMIT], *more])})" if away else ""
