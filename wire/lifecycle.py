"""The state of one entity, and the last steps that led to it, under a table of transitions.

The tables stay with the programs that own them. A step that its table does not have raises
`IllegalTransition` with the entity's history: it is a fault of this program, never a peer's, since
what peers say is checked before. `why` is what the step answers: a sentence, or the event itself;
it becomes text only when a history is told, so that remembering it costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from wire.errors import CrowdpipeError

HISTORY = 16  # steps that are remembered of each entity

Table = Mapping[str, Collection[str]]  # to which states each state may change


class IllegalTransition(CrowdpipeError):
    """The table has no such transition: a fault of this program; tells the history."""

    kind = "illegal_transition"


class Lifecycle:
    """One entity's state, under `table`."""

    __slots__ = ("_steps", "kind", "name", "since", "state", "table")

    def __init__(self, table: Table, kind: str, name: object, state: str, now: float) -> None:
        self.table = table
        self.kind = kind
        self.name = name
        self.state = state  # always a row of `table`
        self.since = now  # when `state` was entered
        self._steps: list[tuple[float, str, object]] = [(now, state, "")]  # the last is `state`

    @property
    def history(self) -> tuple[tuple[float, str, str], ...]:
        """(when, state entered, why), oldest first; at most `HISTORY` of them."""
        return tuple((at, state, str(why)) for at, state, why in self._steps)

    def move(self, to: str, now: float, why: object = "") -> None:
        if to not in self.table[self.state]:
            raise self.illegal(f"{self.state} -> {to}{_because(why)}")
        self.state, self.since = to, now
        if len(self._steps) == HISTORY:
            del self._steps[0]
        self._steps.append((now, to, why))

    def settle(self, to: str, now: float, why: object = "") -> bool:
        """Move unless there already; whether it moved."""
        if self.state == to:
            return False
        self.move(to, now, why)
        return True

    def illegal(self, what: str) -> IllegalTransition:
        """The error for a step that cannot be, with what the entity went through."""
        past = " -> ".join(f"{state} at {at:.3f}{_because(why)}" for at, state, why in self._steps)
        return IllegalTransition(
            f"{self.kind} {self.name}: {what} is not a step that exists; history: {past}"
        )

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.state}>"


def _because(why: object) -> str:
    told = str(why)
    return f" ({told})" if told else ""
