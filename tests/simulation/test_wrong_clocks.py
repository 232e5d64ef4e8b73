"""Clocks of devices that are wrong by hours, and jump while the work goes on: results are right,
and no device is taken for gone or forgotten because of them."""

from __future__ import annotations

import pytest

from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.world import World

HOUR_S = 3600.0


@pytest.mark.parametrize("barrier", [False, True])
def test_clocks_that_are_wrong_by_hours_and_jump_change_no_result(barrier: bool) -> None:
    world = World(25, 25, 25, 25, segments=4, options=OrchestratorOptions(forget_s=HOUR_S))
    runs = [world.submit(f"r{number}", items=8, barrier=barrier) for number in range(3)]
    for number in range(12):
        world.clock.run_for(0.15)
        world.agents[number % 4].jump_clock(5 * HOUR_S)
    world.succeed(*runs)
    known = {device.name for device in world.orchestrator.machine.state.devices}
    assert known == {agent.name for agent in world.agents}
    world.rest()


def test_devices_that_come_back_with_a_clock_hours_behind_are_used_as_before() -> None:
    world = World(25, 25, segments=3)
    world.succeed(world.submit(items=4))
    for agent in world.agents:
        agent.crash()
        agent.jump_clock(-5 * HOUR_S)
        agent.start()
    world.succeed(world.submit("after", items=4))
    world.rest()
