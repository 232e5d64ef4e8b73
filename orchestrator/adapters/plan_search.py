"""Searches for plans in a thread of its own: many devices take seconds, and the machine goes on.

One at a time, in the order asked for, and bounded. Decides nothing, and knows
no machine: a question comes in, and its answer goes out through a callback.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable

from bus.vital_thread import VitalThread
from orchestrator.planner.question import Answer, Question, answer
from wire.errors import CrowdpipeError, TimedOut

BOUND = 1000  # questions: one for each plan, and those of clients
STOP_LIMIT_S = 10.0  # a search that is under way at the end is waited for so long, then left
Told = Callable[[Answer], None]

_log = logging.getLogger("crowdpipe.orchestrator")


class PlanSearch:
    """`died` is told if it can answer nothing any more."""

    def __init__(self, died: Callable[[CrowdpipeError], None]) -> None:
        self._questions: queue.SimpleQueue[tuple[Question, Told] | None] = queue.SimpleQueue()
        self._thread = VitalThread("planner", self._run, died)

    def start(self) -> None:
        self._thread.start()

    def ask(self, question: Question, told: Told) -> None:
        """`told` is called once, in the planner's thread; at once if too many wait already."""
        if self._questions.qsize() >= BOUND:
            told(Answer(None, TimedOut.kind, "too many plans are searched for; try again later"))
        else:
            self._questions.put((question, told))

    def close(self) -> None:
        self._questions.put(None)
        if self._thread.ident is not None:
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, told = asked
            try:
                told(_answer(question))
            except Exception:  # whoever asked is told by its own limit in time
                _log.exception("an answer was lost")


def _answer(question: Question) -> Answer:
    """A fault of ours becomes an answer too: whoever asked must not wait for good."""
    try:
        return answer(question)
    except Exception as error:
        _log.exception("no plan for '%s'", question.manifest.name)
        return Answer(None, CrowdpipeError.kind, f"the planner failed: {error}")
