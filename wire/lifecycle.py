"""The state of one entity, and the last steps that led to it, under a table of transitions.

The tables stay with the programs that own them. A step that its table does not have raises
`IllegalTransition` with the entity's history: it is a fault of this program, never a peer's, since
what peers say is checked before. `why` is what the step answers: a sentence, or the event itself;
it becomes text only when a history is told, so that remembering it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from wire.errors import CrowdpipeError

HISTORY = 16  # steps that are remembered of each entity

Step = tuple[float, str, object, object]  # when, the state entered, why, and what was answered
Table = Mapping[str, Collection[str]]  # to which states each state may change


class IllegalTransition(CrowdpipeError):
    """The table has no such transition: a fault of this program; tells the history."""

    kind = "illegal_transition"


class InvariantBroken(CrowdpipeError):
    """A record contradicts itself or another: a fault of this program."""

    kind = "invariant_broken"


class Cause:
    """What a machine answers just now: it sets the `stimulus` once for each event, and each step of
    its entities notes it. `in_words` is asked only when a history is told."""

    __slots__ = ("in_words", "stimulus")

    def __init__(self, in_words: Callable[[object], str] = str) -> None:
        self.in_words = in_words
        self.stimulus: object = ""

    def __str__(self) -> str:
        return self.in_words(self.stimulus)


class Lifecycle:
    """One entity's state, under `table`."""

    __slots__ = ("_steps", "cause", "kind", "name", "since", "state", "table")

    def __init__(
        self,
        table: Table,
        kind: str,
        name: object,
        state: str,
        now: float,
        cause: Cause | None = None,
    ) -> None:
        self.table = table
        self.kind = kind
        self.name = name
        self.state = state  # always a row of `table`
        self.since = now  # when `state` was entered
        self.cause = cause
        self._steps: list[Step] = []  # the last entered `state`
        self._note(state, now, "")

    @property
    def history(self) -> tuple[tuple[float, str, str], ...]:
        """(when, state entered, why), oldest first; at most `HISTORY` of them."""
        return tuple((at, state, str(why)) for at, state, why, _ in self._steps)

    @property
    def told(self) -> tuple[str, ...]:
        """Each step in words, oldest first."""
        return tuple(map(self._in_words, self._steps))

    def move(self, to: str, now: float, why: object = "") -> None:
        if to not in self.table[self.state]:
            raise self.illegal(f"{self.state} -> {to}{_because(why)}{self._as_what()}")
        self.state, self.since = to, now
        self._note(to, now, why)

    def settle(self, to: str, now: float, why: object = "") -> bool:
        """Move unless there already; whether it moved."""
        if self.state == to:
            return False
        self.move(to, now, why)
        return True

    def illegal(self, what: str) -> IllegalTransition:
        """The error for a step that cannot be, with what the entity went through."""
        past = " -> ".join(self.told)
        return IllegalTransition(
            f"{self.kind} {self.name}: {what} is not a step that exists; history: {past}"
        )

    def _note(self, state: str, now: float, why: object) -> None:
        if len(self._steps) == HISTORY:
            del self._steps[0]
        stimulus = self.cause.stimulus if self.cause is not None else ""
        self._steps.append((now, state, why, stimulus))

    def _in_words(self, step: Step) -> str:
        at, state, why, stimulus = step
        as_what = f", as {self.cause.in_words(stimulus)}" if self.cause and stimulus else ""
        return f"{state} at {at:.3f}{_because(why)}{as_what}"

    def _as_what(self) -> str:
        return f", as {self.cause}" if self.cause is not None and self.cause.stimulus else ""

    def __str__(self) -> str:
        """For errors: the state, and how it came to it."""
        past = " -> ".join(self.told)
        return f"{self.kind} {self.name} is {self.state}: {past}"

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}: {self.state}>"


def _because(why: object) -> str:
    told = str(why)
    return f" ({told})" if told else ""
