"""A client that asks for far too much, beside one that asks for what it needs."""

from __future__ import annotations

import pytest

from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.flooder import FLOODER, Flooder
from tests.simulation.network import Weather
from tests.simulation.virtual_client import VirtualClient
from tests.simulation.world import World
from wire.messages.requests import CancelRun

RUNS = OrchestratorOptions().party_runs


@pytest.mark.parametrize("items", [1, 20])
def test_a_flood_takes_nothing_from_another_client(items: int) -> None:
    alone = World(25, 25, 25)
    took_s = alone.succeed(alone.submit(items=items))
    beside = World(25, 25, 25)
    flooder = Flooder(beside)
    flooder.flood(1500, within_s=took_s)
    assert beside.succeed(beside.submit(items=items)) <= 1.2 * took_s
    beside.clock.run_for(5.0)
    state = beside.orchestrator.machine.state
    assert state.runs.under_way[FLOODER] == RUNS
    assert len(beside.orchestrator.journal.runs) <= RUNS + 1
    assert {each.run for each in flooder.heard if each.type == "accepted"} == set(state.runs) - {
        "r1"
    }


def test_who_flooded_has_runs_of_its_own_afterwards() -> None:
    world = World(25, 25, 25)
    flooder = Flooder(world)
    flooder.flood(1500, within_s=1.0)
    world.clock.run_for(3.0)
    for index in range(1500):
        world.clock.later(index / 1000, lambda index=index: flooder.say(CancelRun(f"f{index}")))
    world.clock.run_for(5.0)
    world.broker.drop(FLOODER)
    again = VirtualClient(world, FLOODER)
    run = again.submit("mine", 3)
    world.succeed(run)


def test_a_flood_through_a_storm_leaves_every_outcome_right() -> None:
    world = World(25, 25, 25, seed=3)
    world.broker.weather = Weather(loss=0.05, doubling=0.1, delay_s=0.2)
    Flooder(world).flood(500, within_s=10.0)
    run = world.submit(items=8)
    world.clock.run_for(20.0)
    world.calm()
    world.succeed(run, limit_s=300.0)
