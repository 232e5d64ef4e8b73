"""Room on our disk for inputs: what lies there, and what clients were told that they may send.

Running totals over all runs, and over those of each user, who may have a share of it all. How much
each run may have is decided by `runs.credits`.
"""

from __future__ import annotations

from orchestrator.machine.records.agenda import Agenda
from orchestrator.machine.records.run import Run
from orchestrator.machine.records.tally import Tally


class InputBudget:
    """`spooled_nbytes` and `promised_nbytes` are the sums over all known runs; `taken_nbytes` has
    the sum of both for each user that has any."""

    def __init__(self, limit_nbytes: int, user_share: float, agenda: Agenda) -> None:
        self._limit_nbytes = limit_nbytes
        self._user_limit_nbytes = int(limit_nbytes * user_share)
        self.taken_nbytes = Tally()
        self._agenda = agenda
        self.spooled_nbytes = 0
        self.promised_nbytes = 0
        self.refused: dict[str, Run] = {}  # told a credit of 0; who is not helped goes to the end

    def spool(self, run: Run, nbytes: int) -> None:
        """So many bytes more of its inputs are on disk, or on their way there."""
        run.spooled_nbytes += nbytes
        self.spooled_nbytes += nbytes
        self._take(run, nbytes)
        if nbytes < 0:
            self._free()

    def promise(self, run: Run, credit: int, bound_nbytes: int) -> None:
        """Its client is told so many inputs; with a credit of 0 it waits for room if there."""
        nbytes = credit * bound_nbytes
        fewer = nbytes < run.promised_nbytes
        self.promised_nbytes += nbytes - run.promised_nbytes
        self._take(run, nbytes - run.promised_nbytes)
        run.granted, run.promised_nbytes = credit, nbytes
        if credit == 0 and run.attended:
            self.refused.setdefault(run.run, run)
        else:
            self.refused.pop(run.run, None)
        if fewer:
            self._free()

    def wait_again(self, run: Run) -> None:
        """There is room, and not enough for it: others may be content with less."""
        self.refused.pop(run.run, None)
        self.refused[run.run] = run

    def forget(self, run: Run) -> None:
        """The run is over: nothing of it lies here."""
        self.refused.pop(run.run, None)
        self.promised_nbytes -= run.promised_nbytes
        self.spooled_nbytes -= run.spooled_nbytes
        self._take(run, -run.promised_nbytes - run.spooled_nbytes)
        run.promised_nbytes = run.spooled_nbytes = 0
        self._free()

    def room_nbytes(self, run: Run) -> int:
        """What all others leave of the disk for the run, besides what it has there, and what the
        others of its user leave of the user's share."""
        of_all = self._limit_nbytes - self.spooled_nbytes - self.promised_nbytes
        of_user = self._user_limit_nbytes - self.taken_nbytes[run.user]
        return max(0, min(of_all, of_user) + run.promised_nbytes)

    @property
    def any_room(self) -> bool:
        return self.spooled_nbytes + self.promised_nbytes < self._limit_nbytes

    def overflows(self, run: Run, nbytes: int) -> bool:
        """Whether an input has no room: its client sent more than it was allowed."""
        of_all = self.spooled_nbytes + nbytes > self._limit_nbytes
        of_user = self.taken_nbytes[run.user] - run.promised_nbytes + nbytes > (
            self._user_limit_nbytes
        )
        return run.spooled_nbytes > 0 and (of_all or of_user)

    def _take(self, run: Run, nbytes: int) -> None:
        self.taken_nbytes.change(run.user, nbytes)

    def _free(self) -> None:
        if self.refused:
            self._agenda.look("room", "")
