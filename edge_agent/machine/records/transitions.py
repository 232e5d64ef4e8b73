"""The one table of states and transitions, and the life of an entity that obeys it.

Nothing else changes a state. A step that the table does not have is a fault of this program: it
raises with the entity's history instead of being worked around.
"""

from __future__ import annotations

from collections import deque
from typing import Literal, NamedTuple

from edge_agent.machine.records.cause import Cause, in_words
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


class Step(NamedTuple):
    at: float
    entered: str
    why: str
    stimulus: object  # what was answered then, as `cause` puts it into words

    def __str__(self) -> str:
        why = f" ({self.why})" if self.why else ""
        return f"{self.at:.3f} {self.entered}{why}, as {in_words(self.stimulus)}"


class Life:
    """An entity's state, and the last `HISTORY` steps that led to it, each with its cause."""

    __slots__ = ("_cause", "_history", "entity", "kind", "state")

    def __init__(self, kind: Kind, entity: object, state: str, cause: Cause) -> None:
        self.kind: Kind = kind
        self.entity = entity
        self.state = state  # one that the table has; changed by `move` alone
        self._cause = cause
        self._history: deque[Step] = deque(maxlen=HISTORY)

    @property
    def history(self) -> tuple[Step, ...]:
        """Oldest first."""
        return tuple(self._history)

    def move(self, to: str, now: float, why: str = "") -> None:
        if to not in TABLE[self.kind][self.state]:
            step = f"{self.state} -> {to}{f' ({why})' if why else ''}, as {self._cause}"
            raise IllegalTransition(f"{self.kind} {self.entity}: no such step: {step}; {self}")
        self._history.append(Step(now, to, why, self._cause.stimulus))
        self.state = to

    def __str__(self) -> str:
        """For errors: the state, and how it came to it."""
        steps = "; ".join(map(str, self._history)) or "nothing"
        return f"it is {self.state!r} after: {steps}"
