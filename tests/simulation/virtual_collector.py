"""Another session of the client's user: takes its runs over, and keeps their outcomes or does not.

An outcome that was kept by one is had by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tests.simulation.virtual_client import ClientRun, Surroundings, VirtualClient
from wire.errors import Busy
from wire.messages.requests import (
    AcknowledgeResults,
    Collected,
    CollectRun,
    InputsStored,
    LeaveRun,
    Rejected,
    Resume,
)

NOT_KNOWN = 1 << 30  # how many items it has is told when it is taken over


class VirtualCollector(VirtualClient):
    """`kept`: by run and item, for all collectors of a world: whose it is."""

    def __init__(self, world: Surroundings, party: str, kept: dict[tuple[str, int], str]) -> None:
        self.kept = kept
        self.owed: set[str] = set()  # runs of which nobody said yet that all was acknowledged
        super().__init__(world, party)

    def collect(self, of: ClientRun) -> ClientRun:
        self.owed.add(of.name)
        run = self.runs[of.name] = ClientRun(of.name, NOT_KNOWN, of.options)
        run.collects = True
        self._ask_for(run)
        return run

    @property
    def owes(self) -> bool:
        """Some of what it keeps is not known to be acknowledged."""
        return any(self.runs[name].over for name in self.owed)

    def stop(self, name: str) -> None:
        """Without keeping anything."""
        self.runs.pop(name)
        self.owed.discard(name)
        self._say(LeaveRun(name))

    def _ask_for(self, run: ClientRun) -> None:
        self._say(CollectRun(run.name, self.world.manifest.digest))

    def _acknowledge(self, run: ClientRun, item: int) -> None:
        """All together, once the last is here."""

    def _leave(self, run: ClientRun) -> None:
        """Nothing is left of it once all of it is acknowledged: until then that is said again."""
        if run.rejected is not None:
            return
        for item in run.outcomes:
            owner = self.kept.setdefault((run.name, item), self.party)
            assert owner == self.party, f"{run.name}/{item} is kept by {owner} and {self.party}"
        self._say(AcknowledgeResults(run.name, tuple(run.outcomes)))
        self._say(Resume(run.name, reads=False))

    def vanish(self) -> None:
        """What comes when it is back may be of a run that is another's by then."""
        super().vanish()
        for run in self.runs.values():
            run.unsure = run.unsure or not run.over

    def _inputs_stored(self, run: ClientRun, told: InputsStored) -> None:
        """It still is ours."""
        run.unsure = False

    def _collected(self, run: ClientRun, told: Collected) -> None:
        if run.accepted:
            return
        run.accepted = True
        run.items = sum(last - first + 1 for first, last in told.items)
        self._say(Resume(run.name))

    def _outcome(self, run: ClientRun, item: int, what: str) -> None:
        if run.accepted:
            super()._outcome(run, item, what)

    def _rejected(self, run: ClientRun, told: Rejected) -> None:
        self.owed -= {run.name} if run.over else set()
        if told.kind != Busy.kind:
            super()._rejected(run, told)

    _HANDLERS: ClassVar[dict[type, Callable[[Any, ClientRun, Any], None]]] = {
        **VirtualClient._HANDLERS,
        InputsStored: _inputs_stored,
        Collected: _collected,
        Rejected: _rejected,
    }
