"""Inputs that keep a slow device busy for far longer than a lease: nobody is given up for it."""

from __future__ import annotations

import pytest

from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.three_phones import IN_THREE, results, three

LEASE_S = OrchestratorOptions().lease_s


@pytest.mark.parametrize("times", [2, 8])
def test_a_task_may_take_many_times_the_lease(times: int) -> None:
    world = three(compute_s=times * LEASE_S)
    world.submit(items=2, options=IN_THREE)
    world.complete(items=2, limit_s=20 * times * LEASE_S)
    assert results(world, 2)
    assert len(world.happened("TaskDone")) == 3 * 2


def test_one_slow_device_is_waited_for_and_no_work_is_done_twice() -> None:
    world = three(compute_s=0.1)
    world.agents["b"].compute_s = 4 * LEASE_S
    world.submit(items=3, options=IN_THREE)
    world.complete(items=3, limit_s=40 * LEASE_S)
    assert results(world, 3)
    assert len(world.happened("TaskDone")) == 3 * 3
