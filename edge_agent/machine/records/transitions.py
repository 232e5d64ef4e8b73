"""The one table of states and transitions, and the life of an entity that obeys it.

Nothing else changes a state. A step that the table does not have is a fault in this program, so
it raises with what the entity went through, instead of being guessed around.
"""

from __future__ import annotations

from collections import deque
from typing import Literal

from wire.errors import CrowdpipeError

Kind = Literal["agent", "partition", "task", "output"]
HISTORY = 16  # steps of an entity that an error can tell

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
        "running": frozenset({"done", "failed", "cancelled"}),
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
"""An agent's `online` is the broker's view. A task is named by its input, and `arrived` by it. A
partition that leaves memory is `waiting` until its blobs are looked at again."""


class IllegalTransition(CrowdpipeError):
    """A step that the table does not have: a fault of this program; tells the history."""

    kind = "illegal_transition"


class Life:
    """An entity's state, and the last `HISTORY` steps that led to it."""

    __slots__ = ("_history", "entity", "kind", "state")

    def __init__(self, kind: Kind, entity: object, state: str) -> None:
        self.kind: Kind = kind
        self.entity = entity
        self.state = state
        self._history: deque[tuple[float, str, str]] = deque(maxlen=HISTORY)

    @property
    def history(self) -> tuple[tuple[float, str, str], ...]:
        """(when, state entered, why), oldest first."""
        return tuple(self._history)

    def move(self, to: str, now: float, why: str = "") -> None:
        if to not in TABLE[self.kind][self.state]:
            raise self.illegal(f"{self.state} -> {to} ({why})" if why else f"{self.state} -> {to}")
        self._history.append((now, to, why))
        self.state = to

    def illegal(self, what: str) -> IllegalTransition:
        steps = ", ".join(
            f"{at:.3f} {state}{f' ({why})' if why else ''}" for at, state, why in self._history
        )
        return IllegalTransition(
            f"{self.kind} {self.entity}: {what} is not a step that exists; "
            f"it is {self.state} after: {steps or 'nothing'}"
        )
