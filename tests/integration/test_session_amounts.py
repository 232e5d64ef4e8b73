"""Large items travel in parts, many items leave nothing behind, several runs share a session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import crowdpipe
from crowdpipe.client import events as ev
from tests.support.models import WIDTH, mlp
from tests.support.orchestrated import System, whole_model
from wire.messages.requests import RunOptions
from wire.parts import PART_NBYTES

ROWS = 4 * PART_NBYTES // (4 * WIDTH)  # four parts or more, in and out


@pytest.fixture
def session(system: System) -> Iterator[crowdpipe.Session]:
    system.add(mlp(4), "mlp", segments=3, max_shape={"batch": ROWS})
    system.start()
    for _ in range(2):
        system.agent()
    broker = str(system.broker.client)
    with crowdpipe.Session("mlp", broker, exact=True, partitions=2, timeout_s=90) as session:
        yield session


def feed(seed: int, rows: int) -> dict[str, Any]:
    return {"x": np.random.default_rng(seed).normal(size=(rows, WIDTH)).astype(np.float32)}


def test_large_items_come_back_whole(session: crowdpipe.Session):
    whole = whole_model(mlp(4))
    feeds = [feed(seed, ROWS - seed) for seed in range(6)]
    for each, (mine,) in zip(feeds, session.run_many(feeds), strict=True):
        assert np.array_equal(mine, whole.run(None, each)[0])


def test_many_items_leave_nothing_behind(session: crowdpipe.Session):
    whole = whole_model(mlp(4))
    total = 400
    seen = dict(session.run_many((feed(seed, 1) for seed in range(total)), ordered=False))
    assert sorted(seen) == list(range(total))
    for seed in range(0, total, 50):
        assert np.array_equal(seen[seed][0], whole.run(None, feed(seed, 1))[0])
    line = session._line
    line.ask(
        ev.PlanAsked("q", session._name, RunOptions(), 10.0)
    )  # its answer comes after all that was told before
    assert not line._readers.handles()
    assert not line._inputs
    assert line._arrived.held_nbytes == 0
    assert not line._machine.runs


def test_two_runs_of_one_session_go_side_by_side(session: crowdpipe.Session):
    whole = whole_model(mlp(4))
    first = session.run_many(feed(seed, 2) for seed in range(20))
    second = session.run_many([feed(100 + seed, 2) for seed in range(20)], barrier=True)
    for seed, ((one,), (two,)) in enumerate(zip(first, second, strict=True)):
        assert np.array_equal(one, whole.run(None, feed(seed, 2))[0])
        assert np.array_equal(two, whole.run(None, feed(100 + seed, 2))[0])
