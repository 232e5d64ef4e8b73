"""Runs that we want, said now and then: the orchestrator lets go of those it hears nothing of.

Not before they are accepted: until then they are submitted again.
"""

from __future__ import annotations

from crowdpipe.client.instructions import Instruction
from crowdpipe.client.steps import renew
from wire.due_times import NEVER

RENEW_S = 15.0  # how often: a quarter of the orchestrator's patience


class Wanted:
    """`names`: of accepted runs. `renew_at`: never exactly if there is none."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.renew_at = NEVER

    def add(self, name: str) -> None:
        self.names[name] = None

    def discard(self, name: str) -> None:
        self.names.pop(name, None)

    def step(self, now: float, *, connected: bool) -> list[Instruction]:
        """Say it, if it is due."""
        if not self.names:
            self.renew_at = NEVER
        elif self.renew_at == NEVER:
            self.renew_at = now + RENEW_S
        elif connected and now >= self.renew_at:
            self.renew_at = now + RENEW_S
            return renew(tuple(self.names))
        return []

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold: for tests."""
        assert (self.renew_at == NEVER) == (not self.names)
