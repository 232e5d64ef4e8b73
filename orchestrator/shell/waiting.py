"""How many events of one kind wait for the machine: of each party, of each user, and of all."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from orchestrator.machine.records.tally import Tally
from wire.topics import user_of


@dataclass(frozen=True, slots=True)
class WaitingLimits:
    of_party: int
    of_user: int
    of_all: int


class Waiting:
    """Safe to use from several threads. With one thread that enters, `has_room` stays true until
    that one does."""

    def __init__(self, limits: WaitingLimits) -> None:
        self._limits = limits
        self._guard = threading.Lock()
        self._of = Tally()  # by party and by user
        self.count = 0

    def has_room(self, party: str) -> bool:
        limits = self._limits
        with self._guard:
            return (
                self._of[party] < limits.of_party
                and self._of[user_of(party)] < limits.of_user
                and self.count < limits.of_all
            )

    def enter(self, party: str) -> None:
        self._change(party, 1)

    def leave(self, party: str) -> None:
        self._change(party, -1)

    def _change(self, party: str, by: int) -> None:
        with self._guard:
            self._of.change(party, by)
            self._of.change(user_of(party), by)
            self.count += by
