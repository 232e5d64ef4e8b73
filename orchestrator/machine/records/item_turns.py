"""Whose item enters a plan next: parties in turn, and the runs of each in turn.

Indices only. How much a run or a party may have under way is decided by `runs.admission`.
"""

from __future__ import annotations

from collections import OrderedDict

from orchestrator.machine.records.run import Run
from orchestrator.machine.records.tally import Tally

PartyRuns = OrderedDict[str, Run]  # those that may have an item admitted; whose turn it is is first


class ItemTurns:
    """Of one plan; no entry is empty. `in_flight`: items of each party under way. `working`: runs
    of each with work. `held`: runs of parties that have as much under way as they may."""

    def __init__(self) -> None:
        self._turns: OrderedDict[str, PartyRuns] = OrderedDict()
        self.held: dict[str, PartyRuns] = {}
        self.working = Tally()
        self.in_flight = Tally()

    @property
    def idle(self) -> bool:
        return not (self._turns or self.held or self.working or self.in_flight)

    @property
    def parties(self) -> int:
        """How many have work."""
        return len(self.working)

    def add(self, run: Run) -> None:
        """It may have an item admitted, once its party may."""
        held = self.held.get(run.party)
        runs = self._turns.setdefault(run.party, OrderedDict()) if held is None else held
        runs.setdefault(run.run, run)

    def next(self) -> Run | None:
        """Whose turn it is; then it is the others'."""
        for party, runs in self._turns.items():
            name = next(iter(runs))
            runs.move_to_end(name)
            self._turns.move_to_end(party)
            return runs[name]
        return None

    def hold_run(self, run: Run) -> None:
        """Until it is added again."""
        for parties in (self._turns, self.held):
            runs = parties.get(run.party)
            if runs is not None and runs.pop(run.run, None) is not None and not runs:
                del parties[run.party]

    def hold_party(self, party: str) -> None:
        """Until something of it ends, or nobody else has work."""
        runs = self._turns.pop(party, None)
        if runs is not None:
            self.held[party] = runs

    def fly(self, party: str, count: int) -> bool:
        """So many more of its items are under way, or fewer; whether somebody may enter again."""
        self.in_flight.change(party, count)
        return count < 0 and self._let_in(party)

    def works(self, party: str, count: int) -> bool:
        """So many more of its runs have work, or fewer; whether somebody may enter again."""
        self.working.change(party, count)
        return len(self.working) == 1 and self._let_in(next(iter(self.working)))

    def _let_in(self, party: str) -> bool:
        runs = self.held.pop(party, None)
        if runs is None:
            return False
        self._turns[party] = runs
        return True
