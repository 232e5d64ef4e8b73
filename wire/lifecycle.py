"""The state of one thing, held to a table of legal transitions.

The table belongs to whoever knows the thing. A step that it does not have is a fault in our own
program, never a peer's, so it raises with what the thing went through, instead of being guessed
around.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from wire.errors import CrowdpipeError

HISTORY = 16  # steps that an error can tell

Table = Mapping[str, frozenset[str]]


class IllegalTransition(CrowdpipeError):
    """A step that the table does not have: a fault of this program; tells the history."""

    kind = "illegal_transition"


class Lifecycle:
    """`name` says what it is of; `state` is where it begins."""

    __slots__ = ("_history", "_table", "name", "state")

    def __init__(self, name: str, table: Table, state: str) -> None:
        self.name = name
        self.state = state
        self._table = table
        self._history: deque[tuple[float, str, str]] = deque(maxlen=HISTORY)

    @property
    def history(self) -> tuple[tuple[float, str, str], ...]:
        """(when, state entered, why), oldest first."""
        return tuple(self._history)

    def move(self, to: str, now: float, why: str) -> None:
        if to not in self._table[self.state]:
            past = ", ".join(f"{at:.3f} {state} ({said})" for at, state, said in self._history)
            raise IllegalTransition(
                f"{self.name}: {self.state} -> {to} ({why}) is not a step that exists; "
                f"before: {past or 'nothing'}"
            )
        self._history.append((now, to, why))
        self.state = to
