"""Asks somebody who may never answer: in a thread of its own, with a limit.

A thread that hangs is left behind, and ends with the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from edge_agent.diagnosis.facts import Unanswered


class Inquiry:
    """A question that is under way from here on."""

    def __init__(self, ask: Callable[[], object], limit_s: float) -> None:
        self._ask = ask
        self._limit_s = limit_s
        self._until_s = time.monotonic() + limit_s
        self._answer: object = Unanswered(f"did not answer within {limit_s:g} s")
        self._thread = threading.Thread(target=self._run, name="asked", daemon=True)
        self._thread.start()

    def answer(self) -> object:
        """Waits for it until the limit; then `Unanswered`."""
        self._thread.join(max(0.0, self._until_s - time.monotonic()))
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as error:  # one question that fails must not take the others along
            self._answer = Unanswered(f"could not be asked: {type(error).__name__}: {error}")
