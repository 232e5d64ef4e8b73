"""Items and loads that end the agent which does them: each has its error after few ends, and
everything else goes on."""

from __future__ import annotations

import pytest

from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.virtual_client import RESULT, ClientRun
from tests.simulation.world import World
from wire.errors import EndsDevice, LoadEndsDevice
from wire.ids import PartitionId, TaskId

FOUR = (25, 25, 25, 25)


def deaths(world: World) -> int:
    return sum(len(agent.deaths) for agent in world.agents)


def deadly_items(world: World, *items: int, first: int | None = None, run: str = "r1") -> None:
    """Whoever runs these ends, at any stage or at the one that begins with segment `first`."""

    def ends(device: str, work: TaskId | PartitionId) -> bool:
        return (
            isinstance(work, TaskId)
            and (work.run, work.item in items) == (run, True)
            and first in (None, work.first)
        )

    world.deadly = ends


def check(run: ClientRun, deadly: set[int]) -> None:
    for item in range(run.items):
        if item in deadly:
            assert run.outcomes[item] == EndsDevice.kind, run.reasons
            assert "phone" in run.reasons[item]
        else:
            assert run.outcomes[item] == RESULT, run.reasons[item]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("first", [None, 2, 4])
@pytest.mark.parametrize("barrier", [False, True])
def test_an_item_that_ends_its_devices_has_its_error_and_all_others_their_result(
    seed: int, first: int | None, barrier: bool
) -> None:
    world = World(*FOUR, seed=seed)
    deadly_items(world, 7, first=first)
    run = world.submit(items=30, barrier=barrier, partitions=3)
    took_s = world.complete(run, limit_s=300.0)
    check(run, {7})
    assert deaths(world) <= 5
    assert took_s < 60.0
    world.rest()


@pytest.mark.parametrize("seed", range(2))
def test_it_is_the_same_on_a_single_device(seed: int) -> None:
    world = World(80, seed=seed)
    deadly_items(world, 0)
    run = world.submit(items=12)
    world.complete(run, limit_s=300.0)
    check(run, {0})
    assert deaths(world) == 4


@pytest.mark.parametrize("seed", range(2))
def test_several_such_items_do_not_keep_the_others_waiting(seed: int) -> None:
    world = World(*FOUR, seed=seed)
    deadly_items(world, 0, 1, 2, 3, 4)
    run = world.submit(items=40, partitions=3)
    harmless = set(range(5, 40))
    world.clock.run_for(100.0, lambda: harmless <= run.outcomes.keys())
    assert harmless <= run.outcomes.keys(), world.describe(run)
    world.complete(run, limit_s=600.0)
    check(run, {0, 1, 2, 3, 4})
    assert deaths(world) <= 5 * 6


@pytest.mark.parametrize("seed", range(2))
def test_other_runs_go_on_while_an_item_is_tried_again(seed: int) -> None:
    world = World(*FOUR, seed=seed)
    deadly_items(world, 0)
    ended = world.submit(items=1, partitions=3)
    others = [world.submit(f"r{number}", items=12, partitions=3) for number in range(2, 6)]
    world.succeed(*others)
    world.complete(ended, limit_s=300.0)
    check(ended, {0})


def test_a_plan_that_is_never_idle_makes_room_for_one_trial_and_goes_on() -> None:
    world = World(*FOUR)
    for agent in world.agents:
        agent.compute_s = 0.3
    deadly_items(world, 0)
    ended = world.submit(items=1, partitions=3)
    busy = world.submit("busy", items=90, partitions=3)
    world.complete(ended, limit_s=60.0)
    check(ended, {0})
    assert not busy.over
    assert deaths(world) <= 5
    world.succeed(busy, limit_s=120.0)


@pytest.mark.parametrize("seed", range(2))
def test_links_that_fail_and_devices_that_stop_suspect_nobody(seed: int) -> None:
    world = World(*FOUR, seed=seed)
    for agent in world.agents:
        agent.compute_s = 0.3
    run = world.submit(items=12, partitions=3)
    for number in range(12):
        world.agents[number % 4].disconnect(1.0)
        world.clock.run_for(2.5)
    world.succeed(run, limit_s=300.0)
    assert deaths(world) == 0


def test_who_is_not_started_again_does_not_keep_the_item_from_its_error() -> None:
    world = World(*FOUR, 25, 25)
    for agent in world.agents:
        agent.supervised = False
    deadly_items(world, 2)
    run = world.submit(items=6, partitions=2)
    world.complete(run, limit_s=400.0)
    check(run, {2})
    assert deaths(world) == 4


@pytest.mark.parametrize("seed", range(2))
def test_a_load_that_ends_every_device_ends_the_run_and_says_so(seed: int) -> None:
    world = World(*FOUR, seed=seed, options=OrchestratorOptions())
    world.deadly = lambda device, work: isinstance(work, PartitionId) and work.first == 2
    run = world.submit(items=6, partitions=3)
    world.complete(run, limit_s=400.0)
    assert set(run.outcomes.values()) == {LoadEndsDevice.kind}, run.reasons
    assert deaths(world) <= 16  # some while nobody looked


def test_a_load_does_not_take_a_whole_fleet_that_nobody_starts_again() -> None:
    world = World(*FOUR, *FOUR, *FOUR)
    for agent in world.agents:
        agent.supervised = False
    world.deadly = lambda device, work: isinstance(work, PartitionId) and work.first == 2
    run = world.submit(items=6, partitions=3)
    world.complete(run, limit_s=400.0)
    assert set(run.outcomes.values()) == {LoadEndsDevice.kind}, run.reasons
    assert deaths(world) == 4


@pytest.mark.parametrize("seed", range(2))
def test_a_load_that_ends_one_device_goes_to_another(seed: int) -> None:
    world = World(*FOUR, seed=seed)
    world.deadly = lambda device, work: isinstance(work, PartitionId) and device == "phone1"
    run = world.submit(items=20, partitions=3)
    world.succeed(run, limit_s=200.0)
    assert deaths(world) <= 4


@pytest.mark.parametrize("after_deaths", [1, 2, 3])
def test_deaths_are_still_known_after_the_orchestrator_was_started_again(
    after_deaths: int,
) -> None:
    world = World(*FOUR)
    deadly_items(world, 7)
    run = world.submit(items=20, partitions=3)
    proven = world.orchestrator.journal.runs
    world.clock.run_for(100.0, lambda: "r1" in proven and len(proven["r1"].deaths) >= after_deaths)
    before = deaths(world)
    world.orchestrator.crash()
    world.orchestrator.start()
    world.complete(run, limit_s=300.0)
    check(run, {7})
    assert deaths(world) <= max(5, before + 3)
    world.rest()


def test_an_orchestrator_that_is_started_again_after_each_proven_death_gives_the_item_up() -> None:
    world = World(*FOUR)
    deadly_items(world, 7)
    run = world.submit(items=20, partitions=3)
    world.clock.run_for(0.5)
    kept = world.orchestrator.journal.runs["r1"]
    for number in range(1, 12):
        proven = len(kept.deaths)
        world.clock.run_for(60.0, lambda proven=proven: run.over or len(kept.deaths) > proven)
        if run.over:
            break
        world.orchestrator.crash()
        world.orchestrator.start()
        assert number < 7, f"{len(kept.deaths)} proven deaths, and it is still tried"
    check(run, {7})
    world.rest()
