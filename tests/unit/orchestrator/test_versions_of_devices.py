"""A device that speaks no version of ours gets no work; once either is updated it does."""

from __future__ import annotations

import pytest

from orchestrator.machine.plans.absence import absent
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.fake_fleet import FakeAgent, World
from tests.support.few_devices import device, world_of
from wire.versions import WireRange


def assigned(world: World) -> set[str]:
    """Who was given anything."""
    said = world.instructions(ins.PublishAssignment)
    return {each.device for each in said if each.assignment.partitions}


def speaking(world: World, name: str, *wire: int) -> None:
    """Its agent is another now."""
    agent = world.agents[name]
    agent.die()
    agent.wire = (wire[0], wire[-1])
    agent.start()
    world.run_for(1.0)


@pytest.mark.parametrize("wire", [(2, 3), (2, 2), (0, 0)])
def test_it_is_not_assigned_anything_and_people_see_who_it_is(wire: tuple[int, int]) -> None:
    world = world_of("a", "b")
    speaking(world, "b", *wire)
    assert absent(world.machine.state) == " (b has another version)"
    world.submit(items=3)
    world.complete(items=3)
    assert assigned(world) == {"a"}


@pytest.mark.parametrize("wire", [(1, 1), (1, 3), (0, 1), (0, 9)])
def test_one_with_a_version_in_common_is(wire: tuple[int, int]) -> None:
    world = world_of("a")
    speaking(world, "a", *wire)
    world.submit(items=3)
    world.complete(items=3)
    assert assigned(world) == {"a"}


def test_a_run_waits_for_it_says_why_and_goes_on_once_its_agent_is_updated() -> None:
    world = world_of("a")
    speaking(world, "a", 2)
    world.submit(items=3)
    world.run_for(10.0)
    assert not world.finished(items=3)
    speaking(world, "a", 1, 2)
    world.complete(items=3)


def test_a_run_goes_on_once_the_desk_is_updated() -> None:
    world = world_of("a")
    speaking(world, "a", 2)
    world.submit(items=3)
    world.run_for(10.0)
    world.options = OrchestratorOptions(versions=WireRange(1, 2))
    world.start_orchestrator()
    world.complete(items=3)


def test_what_it_had_goes_to_another_when_its_new_agent_is_not_understood() -> None:
    world = world_of("a")
    world.submit(items=20)
    world.run_for(1.0)
    assert assigned(world) == {"a"}
    world.agents["b"] = FakeAgent(world, "b")
    world.agents["b"].start()
    speaking(world, "a", 2)
    world.complete(items=20)
    assert assigned(world) == {"a", "b"}


def test_the_will_of_an_agent_of_before_says_nothing_of_the_one_that_is_there() -> None:
    world = world_of("a")
    old = world.agents["a"].state("offline")
    speaking(world, "a", 2)
    world.tell(ev.DeviceStateSeen("a", old, False))
    world.run_for(0.1)
    assert device(world).foreign
    speaking(world, "a", 1)
    assert not device(world).foreign


def test_the_desk_tells_its_own_versions() -> None:
    world = world_of("a")
    said = world.instructions(ins.PublishState)[-1].state
    assert said.versions == WireRange(1, 1)
