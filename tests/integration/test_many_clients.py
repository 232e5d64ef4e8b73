"""Ten clients at once with unequal runs: who wants little does not wait for who wants much."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import numpy as np
import pytest

import crowdpipe
from orchestrator.machine.runs.admission import LEAST_WINDOW
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import System

LONG, SHORT = 1_000, 10
OTHERS = 9
LIMIT_S = 60.0
FEED = {"x": np.ones((2, WIDTH), np.float32)}
# What was in flight when the short run came, and when it ended.
BEFORE_AND_AFTER = 4 * LEAST_WINDOW


class LongRun:
    """A client of its own with a run that goes on until it is told to end."""

    def __init__(self, session: crowdpipe.Session) -> None:
        self._session = session
        self.count = 0
        self.begun, self.over = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            for _ in self._session.run_many([FEED] * LONG, ordered=False):
                self.count += 1
                self.begun.set()
                if self.over.is_set():
                    return  # which cancels the rest
        except Exception as error:
            self.error = error


@pytest.fixture
def broker(system: System) -> str:
    system.add(mlp(4), "mlp", segments=2, max_shape={"batch": 4})
    system.start()
    for _ in range(2):
        system.agent()
    return str(system.broker.client)


def done(system: System) -> int:
    """Items of all runs, as the orchestrator knows: clients' threads may be far behind it."""
    assert system.orchestrator is not None
    runs = system.orchestrator._machine.state.runs
    return sum(runs[name].done for name in list(runs))


def test_a_short_run_is_done_in_its_share_of_the_time(system: System, broker: str):
    with ExitStack() as stack:
        sessions = [
            stack.enter_context(crowdpipe.Session("mlp", broker, partitions=2, timeout_s=LIMIT_S))
            for _ in range(OTHERS + 1)
        ]
        others = [LongRun(session) for session in sessions[1:]]
        for other in others:
            other.thread.start()
        assert all(other.begun.wait(LIMIT_S) for other in others)
        before = done(system)
        assert len(list(sessions[0].run_many([FEED] * SHORT))) == SHORT
        meanwhile = done(system) - before - SHORT
        for other in others:
            other.over.set()
        for other in others:
            other.thread.join(LIMIT_S)
    assert [other.error for other in others] == [None] * OTHERS
    assert meanwhile <= OTHERS * (SHORT + BEFORE_AND_AFTER)
    assert all(other.count for other in others)
