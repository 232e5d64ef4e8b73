"""A person's run goes on through the deaths of broker, orchestrator and device."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import crowdpipe
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import System, whole_model

LIMIT_S = 90.0
COUNT = 40


@pytest.fixture
def served(system: System) -> System:
    system.add(mlp(6), "mlp", segments=6, max_shape={"batch": 4})
    for _ in range(3):
        system.agent()
    return system


def feeds() -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    return [{"x": rng.normal(size=(2, WIDTH)).astype(np.float32)} for _ in range(COUNT)]


def open_session(system: System) -> crowdpipe.Session:
    broker = str(system.broker.client)
    return crowdpipe.Session("mlp", broker, exact=True, partitions=3, timeout_s=LIMIT_S)


def check(given: list[list[Any]]) -> None:
    whole = whole_model(mlp(6))
    assert len(given) == COUNT
    for each, (mine,) in zip(feeds(), given, strict=True):
        assert np.array_equal(mine, whole.run(None, each)[0])


def lazily() -> Iterator[dict[str, Any]]:
    yield from feeds()


def test_a_run_goes_on_after_its_broker_was_restarted(served: System):
    served.start()
    with open_session(served) as session:
        results = session.run_many(lazily())
        given = [next(results) for _ in range(3)]
        served.broker.stop()
        served.broker.start()
        given += list(results)
    check(given)


def test_a_run_goes_on_after_its_orchestrator_was_killed(served: System):
    process = served.start_process()
    with open_session(served) as session:
        results = session.run_many(lazily())
        given = [next(results) for _ in range(3)]
        process.send_signal(signal.SIGKILL)
        process.wait(LIMIT_S)
        served.start_process()
        given += list(results)
    check(given)


def test_a_run_goes_on_after_a_device_was_killed(served: System):
    served.start()
    with open_session(served) as session:
        results = session.run_many(lazily())
        given = [next(results) for _ in range(3)]
        served.agents[0].signal(signal.SIGKILL)
        given += list(results)
    check(given)
