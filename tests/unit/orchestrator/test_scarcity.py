"""When no device is there: each run waits its own while, and only time in which we could hear
counts. A device that was forgotten and is still there is met anew."""

from __future__ import annotations

from orchestrator.machine.records import events as ev
from tests.support.fake_fleet import World
from tests.support.tiny_manifest import MB, tiny_manifest


def world_of(*names: str) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names)


def joins(world: World, name: str) -> None:
    agent = world.agents[name] = world_of(name).agents[name]
    agent.world = world
    world.tell(ev.DeviceStateSeen(name, agent.state(), False))


def outcomes_at(world: World, seconds: float) -> dict[tuple[str, int], list[str]]:
    world.run_for(seconds)
    return dict(world.outcomes)


def test_a_run_that_comes_late_waits_as_long_as_those_before_it() -> None:
    world = world_of()
    world.submit("early", items=1)
    world.run_for(25.0)
    world.submit("late", items=1)
    assert set(outcomes_at(world, 10.0)) == {("early", 0)}
    assert set(outcomes_at(world, 15.0)) == {("early", 0)}
    assert outcomes_at(world, 10.0)["late", 0] == ["no_device"]


def test_a_device_that_comes_in_time_for_the_late_run_serves_it() -> None:
    world = world_of()
    world.submit("early", items=1)
    world.run_for(25.0)
    world.submit("late", items=1)
    world.run_for(10.0)
    joins(world, "a")
    world.complete("late", items=1)
    assert world.outcomes["early", 0] == ["no_device"]
    assert world.outcomes["late", 0] == ["result"]


def test_time_in_which_nobody_could_be_heard_does_not_count() -> None:
    world = world_of()
    world.submit(items=1)
    world.run_for(10.0)
    world.tell(ev.Disconnected("the broker is gone"))
    world.run_for(19.9)
    world.tell(ev.Connected("again"))
    assert outcomes_at(world, 15.0) == {}
    assert outcomes_at(world, 20.0) == {("r1", 0): ["no_device"]}


def test_a_device_that_comes_back_after_it_was_forgotten_obeys_what_it_is_told_then() -> None:
    world = world_of("a")
    world.submit("r1", items=1)
    world.complete("r1", items=1)
    before = world.retained["a"].revision
    world.tell(ev.ForgetAsked("a"))
    world.run_for(1.0)
    world.agents["a"].say_state("online")
    world.agents["a"].say_residency()
    world.submit("r2", items=1)
    world.complete("r2", items=1)
    assert world.outcomes["r2", 0] == ["result"]
    assert world.retained["a"].revision > before
