"""Both machines together when nothing fails: mechanisms, order and cleanliness."""

from __future__ import annotations

from tests.simulation.world import World
from wire.messages import events as dev


def test_a_run_over_three_devices_gives_what_the_whole_model_gives() -> None:
    world = World(25, 25, 25)
    world.succeed(world.submit(items=8))
    world.rest()
    served = [a for a in world.agents if any(isinstance(e, dev.TaskDone) for _, e in a.history)]
    assert len(served) == 3


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
