"""Late tasks that two devices have, and devices that die, leave or fail: nothing is lost."""

from __future__ import annotations

import pytest

from tests.support.fake_fleet import FakeAgent, World
from tests.support.late_tasks import cancelled, counted, devices, placed, spare_of, stuck, warm
from tests.support.three_phones import IN_THREE, results, serving
from wire.ids import ActivationId
from wire.messages import events as dev
from wire.messages.residency import Failure

SOON_S = 12.0  # no stall timer, and no lease


def test_a_helper_that_came_second_may_serve_the_item_later() -> None:
    world = warm()
    helper, last = world.agents[spare_of(world)], serving(world, 4)
    helper.load_s, last.compute_s = 5.0, 5.0
    stuck(world, seconds=3.0, items=1)
    world.run_for(30.0, lambda: counted(world, "hedged") == 1)
    world.run_for(30.0, lambda: last.running is not None)
    last.die()
    helper.load_s, began = 0.05, world.now
    world.complete("r2", items=1)
    assert placed(world, 4) == helper.name
    assert results(world, 1, "r2")
    assert world.now - began < SOON_S


def test_a_beaten_device_may_serve_the_item_later() -> None:
    world = warm()
    late, last = stuck(world, seconds=6.0, items=1), serving(world, 4)
    last.compute_s = 5.0
    world.run_for(30.0, lambda: counted(world, "hedges_won") == 1)
    world.run_for(5.5)  # it has ended its task by now
    last.die()
    began = world.now
    world.complete("r2", items=1)
    assert placed(world, 4) == late.name
    assert results(world, 1, "r2")
    assert world.now - began < SOON_S


def test_who_came_second_is_told_to_forget_the_item_once_it_is_over() -> None:
    world = warm()
    late = stuck(world, items=1)
    world.run_for(30.0, lambda: counted(world, "hedges_won") == 1)
    assert ("r2", 0) not in cancelled(world, late.name)
    world.complete("r2", items=1)
    world.run_for(1.0)
    assert ("r2", 0) in cancelled(world, late.name)


def hedged(world: World, fetch_s: float) -> tuple[FakeAgent, FakeAgent]:
    """A late device and its helper, which fetches for so long."""
    for name in world.agents.keys() - set(devices(world)):
        world.agents[name].fetch_s = fetch_s
    late = stuck(world, items=1)
    world.run_for(20.0, lambda: counted(world, "hedged") == 1)
    item = world.machine.state.item("r2", 0)
    assert item is not None
    return late, world.agents[item.detours[2]]


def test_a_helper_that_gives_the_frame_up_and_dies_is_not_waited_for() -> None:
    world = warm(5)
    late, helper = hedged(world, fetch_s=3.0)
    world.run_for(0.1)
    at = ActivationId("r2", 0, 2)
    helper.inputs.pop(at, None)
    helper.say(dev.FrameDropped(at, "too_large", "no room", serving(world, 0).name))
    world.run_for(0.05)
    helper.die()
    world.run_for(0.05)
    late.die()
    began = world.now
    world.complete("r2", items=1)
    assert results(world, 1, "r2")
    assert world.now - began < SOON_S


def test_a_beaten_device_that_hangs_is_chosen_after_all_others() -> None:
    world = warm(5, compute_s=0.3)
    hung = stuck(world, items=2, seconds=5000.0)
    world.complete("r2", items=2)
    winner = serving(world, 2)
    world.submit(run="r4", items=1, options=IN_THREE)
    world.run_for(5.0, lambda: winner.running is not None)
    winner.die()
    began = world.now
    world.complete("r4", items=1)
    assert placed(world, 2) not in (hung.name, winner.name)
    assert world.now - began < SOON_S


def test_a_late_device_that_dies_before_its_helper_fails_to_load_is_replaced_at_once() -> None:
    world = warm(5)
    late, helper = hedged(world, fetch_s=2.0)
    helper.fail_load = lambda partition: Failure("load_failed", "no room")
    late.die()
    began = world.now
    world.complete("r2", items=1)
    assert results(world, 1, "r2")
    assert world.now - began < SOON_S


def test_a_helper_that_wins_and_leaves_does_not_get_the_partition() -> None:
    world = warm()
    helper = world.agents[spare_of(world)]
    helper.compute_s = 1.0
    stuck(world, items=1)
    world.run_for(10.0, lambda: counted(world, "hedged") == 1 and helper.running is not None)
    helper.say_state("draining")
    world.run_for(10.0, lambda: counted(world, "hedges_won") == 1)
    assert placed(world, 2) != helper.name


@pytest.mark.parametrize("times", [1, 2])
def test_an_item_whose_stage_moved_is_not_late_because_of_who_had_it_before(times: int) -> None:
    world = warm(5, compute_s=0.2)
    late = stuck(world, items=1)
    world.run_for(0.5)
    for _ in range(times):
        late.die()
        late = serving(world, 2)
        late.compute_s = 0.2
        world.run_for(0.3)
    item = world.machine.state.item("r2", 0)
    assert item is None or 2 not in item.started or item.started[2] > world.now - 1.0
    world.complete("r2", items=1)
    assert results(world, 1, "r2")
