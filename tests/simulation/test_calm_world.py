"""Both machines together when nothing fails: mechanisms, order and cleanliness."""

from __future__ import annotations

import pytest

from tests.simulation.network import HOP_S
from tests.simulation.virtual_orchestrator import SYNC_S
from tests.simulation.world import World
from wire.messages import events as dev


def test_a_run_over_three_devices_gives_what_the_whole_model_gives() -> None:
    world = World(25, 25, 25)
    world.succeed(world.submit(items=8))
    world.rest()
    served = [a for a in world.agents if any(isinstance(e, dev.TaskDone) for _, e in a.history)]
    assert len(served) == 3


@pytest.mark.parametrize("part_nbytes", [None, 150])
def test_an_input_that_goes_along_saves_a_commit_and_two_ways(part_nbytes: int | None) -> None:
    took = {}
    for attached in (0, 1):
        world = World(25, 25, 25, part_nbytes=part_nbytes)
        world.succeed(world.submit("warm", items=1))
        took[attached] = world.succeed(world.submit("r", items=1, attached=attached))
        world.rest()
    assert took[0] - took[1] > SYNC_S + 1.5 * HOP_S


def test_a_barrier_run_gives_the_same() -> None:
    world = World(25, 25, 25)
    world.succeed(world.submit(items=8, barrier=True))
    world.rest()


def test_streaming_overlaps_stages_where_the_barrier_does_not() -> None:
    took = {}
    for barrier in (False, True):
        world = World(25, 25, 25)
        world.succeed(world.submit("warm", items=1))
        took[barrier] = world.succeed(world.submit("r", items=8, barrier=barrier))
    assert took[False] < 0.8 * took[True]


def test_one_device_serves_more_partitions_than_fit_by_swapping() -> None:
    world = World(25)
    run = world.submit(items=4)
    world.complete(run)
    world.rest()


def test_two_runs_and_an_exact_one_side_by_side() -> None:
    world = World(30, 30, 30, 30)
    runs = [world.submit("a"), world.submit("b", exact=True), world.submit("c", barrier=True)]
    world.succeed(*runs, limit_s=300.0)
    world.rest()


def test_a_cancelled_run_ends_and_leaves_nothing() -> None:
    world = World(25, 25, 25)
    run = world.submit(items=20)
    world.clock.run_for(1.5)
    world.client.cancel(run.name)
    world.clock.run_for(20.0)
    world.rest()


def test_a_flood_of_frames_that_nobody_expects_costs_no_item() -> None:
    world = World(25, 25, 25, hold_nbytes=50_000)
    run = world.submit(items=12)
    for round_ in range(40):
        for which in range(3):
            world.stray(which, 2 * (round_ % 3), 9, run=f"stray{round_}")
        world.clock.run_for(0.1)
    world.succeed(run)
    world.rest()
    drops = [e for a in world.agents for _, e in a.history if isinstance(e, dev.FrameDropped)]
    assert {"early", "too_large"} <= {drop.kind for drop in drops}, "the devices were full"


@pytest.mark.parametrize(("early", "late"), [(7, 0), (6, 1)])
def test_what_a_task_makes_finds_room_on_a_device_full_of_early_frames(
    early: int, late: int
) -> None:
    """Eight frames fit on each; the world checks that there never are more."""
    world = World(25, 25, 25, hold_nbytes=50_000)
    world.succeed(world.submit(items=1))
    world.clock.run_for(5.0)
    for which in range(3):
        world.stray(which, 1, early, run="early")
    run = world.submit("r2", items=1)
    waiting = {0, 1, 2}
    while not run.over:
        world.clock.run_for(0.005)
        for which in [w for w in waiting if world.agents[w].machine._agent.slot.task]:
            waiting.discard(which)
            world.stray(which, 3, late, run="late")
    world.succeed(run)
    drops = [e for a in world.agents for _, e in a.history if isinstance(e, dev.FrameDropped)]
    assert {drop.activation.run for drop in drops} == ({"late"} if late else {"early"})
    assert not waiting
    world.rest()


def test_a_device_that_is_forgotten_while_it_works_is_met_anew() -> None:
    world = World(40, segments=3)
    run = world.submit(items=12)
    world.clock.run_for(1.0)
    world.forget("phone0")
    world.succeed(run)
    world.succeed(world.submit("after", items=3))
    world.rest()


def test_a_device_that_is_forgotten_while_idle_gives_its_memory_back() -> None:
    world = World(40, segments=3)
    world.succeed(world.submit(items=2))
    assert world.agents[0].memory is not None
    world.forget("phone0")
    world.rest()
    assert world.agents[0].memory is None


def test_frames_in_parts_give_the_same_and_take_no_part_twice() -> None:
    world = World(25, 25, 25, part_nbytes=150)
    world.succeed(world.submit(items=8))
    world.rest()
    assert all(agent.courier.parts for agent in world.agents)
    assert world.orchestrator.courier.parts


def test_what_hangs_on_one_device_is_done_by_another_and_the_device_comes_back() -> None:
    world = World(40, 40, segments=3)
    for agent in world.agents[:1]:
        agent.faults.append("stuck")
    world.succeed(world.submit(items=4), limit_s=200.0)
    world.clock.run_for(60.0)
    assert [agent.running for agent in world.agents] == [True, True]
    world.rest()


def test_a_model_that_was_removed_while_nobody_listened_leaves_every_device() -> None:
    world = World(25, 25, 25)
    world.succeed(world.submit(items=3))
    world.orchestrator.crash()
    world.model_there = False
    world.orchestrator.start()
    world.clock.run_for(30.0)
    assert [agent.memory for agent in world.agents] == [None, None, None]


def test_what_is_resident_outlives_an_orchestrator_while_its_model_is_there() -> None:
    world = World(25, 25, 25)
    world.succeed(world.submit(items=3))
    before = [agent.memory for agent in world.agents]
    world.orchestrator.crash()
    world.orchestrator.start()
    world.clock.run_for(30.0)
    assert [agent.memory for agent in world.agents] == before
    assert None not in before


def test_a_removed_model_leaves_every_device_and_its_runs_end() -> None:
    world = World(25, 25, 25)
    run = world.submit(items=20)
    world.clock.run_for(1.5)
    world.remove_model()
    world.complete(run)
    world.rest()
    assert [agent.memory for agent in world.agents] == [None, None, None]
