"""The one table of states and transitions, and the life of an entity that obeys it.

Nothing else changes a state. A step that the table does not have is a fault of this program: it
raises with the entity's history instead of being worked around.
"""

from __future__ import annotations

from typing import Literal

from wire.lifecycle import Cause, Lifecycle

Kind = Literal["agent", "partition", "task", "output"]

TABLE: dict[Kind, dict[str, frozenset[str]]] = {
    "agent": {
        "new": frozenset({"offline"}),
        "offline": frozenset({"online", "replaced", "stopped"}),
        "online": frozenset({"online", "offline", "replaced", "stopped"}),
        "replaced": frozenset(),
        "stopped": frozenset(),
    },
    "partition": {
        "waiting": frozenset({"fetching", "cached", "failed"}),
        "fetching": frozenset({"cached", "waiting", "failed"}),
        "cached": frozenset({"loading", "waiting", "fetching", "failed"}),
        "loading": frozenset({"resident", "waiting", "failed"}),
        "resident": frozenset({"evicting", "failed"}),
        "evicting": frozenset({"waiting", "failed"}),
        "failed": frozenset({"waiting"}),
    },
    "task": {
        "arrived": frozenset({"early", "waiting", "dropped"}),
        "early": frozenset({"waiting", "dropped", "cancelled", "done"}),
        "waiting": frozenset({"running", "early", "dropped", "cancelled"}),
        "running": frozenset({"done", "failed", "cancelled", "waiting", "early"}),
        "done": frozenset(),
        "failed": frozenset(),
        "dropped": frozenset(),
        "cancelled": frozenset(),
    },
    "output": {
        "made": frozenset({"parked", "sent"}),
        "parked": frozenset({"sent", "released", "cancelled", "replaced"}),
        "sent": frozenset({"sent", "released", "cancelled", "replaced"}),
        "released": frozenset(),
        "cancelled": frozenset(),
        "replaced": frozenset(),
    },
}
"""An agent's `online` is the broker's view. A task is named by its input, and `arrived` by it; one
that was begun in a group waits again if an earlier one of the group took the partition with it. A
partition that leaves memory is `waiting` until its blobs are looked at again."""


def life_of(kind: Kind, entity: object, state: str, cause: Cause, now: float = 0.0) -> Lifecycle:
    """A new entity's; its history notes what the machine answers."""
    return Lifecycle(TABLE[kind], kind, entity, state, now, cause)
