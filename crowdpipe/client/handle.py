"""One run, for whoever reads it: offers inputs, takes outcomes, waits with a limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from crowdpipe.client import events as ev
from wire.errors import CrowdpipeError, TimedOut
from wire.ids import ActivationId

if TYPE_CHECKING:
    from crowdpipe.client.line import Line

MOST_TAKEN = 16  # outcomes that are told as taken at once, or sooner if the reader waits
MARGIN_S = 15.0  # what the machine limits, it ends; longer silence is a fault of ours


@dataclass(frozen=True, slots=True)
class Result:
    """An item's outcome: a frame, or an error."""

    frame: bytes | None
    error: CrowdpipeError | None = None


class Handle:
    """One run, for whoever reads it. Not for several threads at once.

    The line's thread says what happened (`grant`, `give`, `end`, `fail`), which wakes the reader of
    this run and of no other.
    """

    def __init__(self, line: Line, run: str, limit_s: float, window: int = 0) -> None:
        """`window`: how many items may be under way or wait to be read; 0: no matter. A quarter of
        it may lie taken and untold, or the run would stand still until its reader waits."""
        self._line = line
        self._taken_at_once = max(1, min(MOST_TAKEN, window // 4)) if window else MOST_TAKEN
        self._limit_s = limit_s
        self._changed = threading.Condition()
        self._taken = 0  # outcomes, not told yet
        self._failure: CrowdpipeError | None = None  # of the line; ends whoever waits
        self.run = run
        self.granted = 0  # inputs that may be offered, from the first; only rises
        self.expected: int | None = None  # outcomes that come, of a run that is collected
        self.had = 0  # outcomes of it that another session has
        self.ended = False  # nothing more will come than lies in `results`
        self.error: CrowdpipeError | None = None  # why it ended early
        self.results: dict[int, Result] = {}  # not taken yet

    def offer(self, item: int, frame: bytes) -> None:
        """The next input; only within `granted`."""
        self._line.keep_input(ActivationId(self.run, item, 0), frame)
        self._line.tell(ev.InputOffered(self.run, item, len(frame)))

    def finish(self, count: int) -> None:
        self._line.tell(ev.InputsEnded(self.run, count))

    def take(self, item: int | None) -> tuple[int, Result] | None:
        """This item's outcome, or any if None; None if it has not come yet."""
        with self._changed:
            chosen = next(iter(self.results), None) if item is None else item
            result = None if chosen is None else self.results.pop(chosen, None)
        if chosen is None or result is None:
            return None
        self._taken += 1
        if self._taken >= self._taken_at_once:
            self._tell_taken()
        return chosen, result

    def _tell_taken(self) -> None:
        taken, self._taken = self._taken, 0
        if taken:
            self._line.tell(ev.OutcomesTaken(self.run, taken))

    def wait(self, until: Callable[[], bool]) -> None:
        """Return once `until` holds, or the run has ended. Raises what ended the line."""
        self._tell_taken()
        limit_s = self._limit_s + MARGIN_S
        with self._changed:
            came = self._changed.wait_for(
                lambda: until() or self.ended or self._failure is not None, limit_s
            )
        if self._failure is not None and not self.ended:
            raise self._failure
        if not came:
            raise TimedOut(f"nothing was heard of run {self.run} for {limit_s:g} s")

    def close(self) -> None:
        self._line.end(self)

    def leave(self, kept: Collection[int]) -> None:
        """Of a run that is collected: these outcomes are safe, the others are for the next."""
        self._line.leave(self, tuple(kept))

    # --- what the line's thread says ----------------------------------------------------------

    def grant(self, total: int) -> None:
        with self._changed:
            self.granted = total
            self._changed.notify_all()

    def expect(self, count: int, had: int) -> None:
        with self._changed:
            self.expected, self.had = count, had
            self._changed.notify_all()

    def give(self, item: int, result: Result) -> None:
        with self._changed:
            self.results[item] = result
            self._changed.notify_all()

    def end(self, error: CrowdpipeError | None) -> None:
        with self._changed:
            self.ended, self.error = True, error
            self._changed.notify_all()

    def fail(self, error: CrowdpipeError) -> None:
        """Nothing is heard any more, of this run or any other."""
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
