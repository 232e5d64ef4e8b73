"""The one table of states and transitions, for everything here that has a life.

What checks it and remembers the steps is `wire.lifecycle`.
"""

from __future__ import annotations

from typing import Literal

from wire.lifecycle import Cause, Lifecycle, Table

Kind = Literal["device", "run", "item", "placement"]

_SERVED = ("assigned", "fetching", "cached", "loading", "resident", "failed", "planned")

TABLE: dict[Kind, Table] = {
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
    # suspect: set aside, because agents end that run it; it is tried again behind all others.
    # ending: its first terminal outcome is on its way to disk; ended: on disk and published.
    "item": {
        "arrived": ("storing", "ending"),
        "storing": ("stored", "ending"),
        "stored": ("admitted", "suspect", "ending"),
        "admitted": ("ending", "stored", "suspect"),
        "suspect": ("admitted", "stored", "ending"),
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


def lifecycle_of(
    kind: Kind, name: str, state: str, now: float, cause: Cause | None = None
) -> Lifecycle:
    """A new entity's, in `state` since `now`; its history notes what the machine answers."""
    return Lifecycle(TABLE[kind], kind, name, state, now, cause)
