"""Searches for plans in a thread of its own: many devices take seconds, and the machine goes on.

One at a time, in the order asked for; the machine bounds how many wait. Decides nothing, and knows
no machine: a question comes in, and its answer goes out through a callback.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable

from orchestrator.planner.question import Answer, Question, answer
from wire.errors import CrowdpipeError

STOP_LIMIT_S = 10.0  # a search that is under way at the end is waited for so long, then left
Told = Callable[[Answer], None]

_log = logging.getLogger("crowdpipe.orchestrator")


class PlanSearch:
    def __init__(self) -> None:
        self._questions: queue.SimpleQueue[tuple[Question, Told] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="planner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self, question: Question, told: Told) -> None:
        """`told` is called once, in the planner's thread."""
        self._questions.put((question, told))

    def close(self) -> None:
        self._questions.put(None)
        if self._thread.ident is not None:
            self._thread.join(STOP_LIMIT_S)

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, told = asked
            told(_answer(question))


def _answer(question: Question) -> Answer:
    """A fault of ours becomes an answer too: whoever asked must not wait for good."""
    try:
        return answer(question)
    except Exception as error:
        _log.exception("no plan for '%s'", question.manifest.name)
        return Answer(None, CrowdpipeError.kind, f"the planner failed: {error}")
