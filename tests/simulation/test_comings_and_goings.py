"""Devices that come and leave again and again, under old names and new ones: the work goes on, and
nothing is left of those who stayed away."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.virtual_agent import VirtualAgent
from tests.simulation.world import World, capabilities
from tests.support.tiny_manifest import MB

FORGET_S = 300.0
TIMES = 20


def visitor(world: World, name: str) -> VirtualAgent:
    known = [agent for agent in world.agents if agent.name == name]
    if known:
        return known[0]
    able = capabilities(40 * MB, 200 * MB, 1 << 20)
    agent = VirtualAgent(world, name, able, 5000.0)
    agent.supervised = False
    world.agents.append(agent)
    return agent


def names_left(world: World) -> set[str]:
    return {topic.partition("/")[2] for topic in world.broker.retained if "phone" in topic}


@pytest.mark.parametrize("named", [lambda _: "phone-v", lambda number: f"phone-v{number}"])
@pytest.mark.parametrize("restarts", [False, True])
def test_who_came_and_left_twenty_times_leaves_no_ghosts(
    named: Callable[[int], str], restarts: bool
) -> None:
    world = World(25, 25, 25, segments=3, options=OrchestratorOptions(forget_s=FORGET_S))
    for number in range(TIMES):
        agent = visitor(world, named(number))
        agent.start()
        run = world.submit(f"r{number}", items=3)
        world.clock.run_for(0.3)
        agent.crash()
        world.succeed(run)
        if restarts and number % 7 == 0:
            world.orchestrator.crash()
            world.orchestrator.start()
    world.agents = [agent for agent in world.agents if agent.running]
    world.clock.run_for(FORGET_S + 100.0)
    stays = {"phone0", "phone1", "phone2"}
    assert names_left(world) == stays
    assert {device.name for device in world.orchestrator.machine.state.devices} == stays
    assert world.orchestrator.journal.absences == {}
    world.succeed(world.submit("after", items=3))
    world.rest()
