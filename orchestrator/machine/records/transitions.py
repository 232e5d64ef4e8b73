"""The one table of states and transitions, for everything here that has a life.

A transition that the table does not have raises `IllegalTransition` with that entity's history:
it is a bug of ours, never a peer's, since what peers say is checked before.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

Kind = Literal["device", "run", "item", "placement"]
HISTORY = 32  # transitions remembered per entity

_SERVED = ("assigned", "fetching", "cached", "loading", "resident", "failed", "planned")

TABLE: dict[Kind, dict[str, tuple[str, ...]]] = {
    # unproven: only retained words, or silent when asked. alive: proven. lost: will or lease.
    "device": {
        "unproven": ("alive", "draining", "lost"),
        "alive": ("unproven", "draining", "lost"),
        "draining": ("unproven", "alive", "lost"),
        "lost": ("unproven", "alive", "draining"),
    },
    # gathering: waits for its attached inputs. storing: on its way to disk with them, not
    # yet accepted.
    "run": {
        "gathering": ("storing", "cancelled"),
        "storing": ("accepted", "failed", "cancelled"),
        "accepted": ("running", "done", "failed", "cancelled"),
        "running": ("done", "failed", "cancelled"),
        "done": (),
        "failed": (),
        "cancelled": (),
    },
    # admitted -> stored: sent home, because its devices became fewer and have no room for it.
    # ending: its first terminal outcome is on its way to disk; ended: on disk and published.
    "item": {
        "arrived": ("storing", "ending"),
        "storing": ("stored", "ending"),
        "stored": ("admitted", "ending"),
        "admitted": ("ending", "stored"),
        "ending": ("ended",),
        "ended": (),
    },
    # planned: a range without a device, or with a preliminary one. The rest is what the
    # device reports; swapping makes most orders between those possible.
    "placement": {
        "planned": ("assigned",),
        "assigned": _SERVED,
        "fetching": _SERVED,
        "cached": _SERVED,
        "loading": _SERVED,
        "resident": _SERVED,
        "failed": ("planned",),
    },
}


class IllegalTransition(RuntimeError):
    """The table has no such transition; the message carries the entity's history."""


class Lifecycle:
    """The state of one entity, and how it came there."""

    __slots__ = ("history", "kind", "name", "since", "state")

    def __init__(self, kind: Kind, name: str, state: str, now: float) -> None:
        self.kind, self.name, self.state, self.since = kind, name, state, now
        self.history: deque[tuple[float, str, str]] = deque([(now, state, "")], HISTORY)

    def move(self, to: str, now: float, why: str = "") -> None:
        if to not in TABLE[self.kind][self.state]:
            past = " -> ".join(f"{state} at {at:.3f} ({why})" for at, state, why in self.history)
            raise IllegalTransition(
                f"{self.kind} {self.name}: {self.state} -> {to} ({why}); history: {past}"
            )
        self.state, self.since = to, now
        self.history.append((now, to, why))

    def settle(self, to: str, now: float, why: str = "") -> bool:
        """Move unless there already; whether it moved."""
        if self.state == to:
            return False
        self.move(to, now, why)
        return True

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.state}>"
