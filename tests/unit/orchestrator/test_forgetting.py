"""Devices that nobody heard of for long enough are forgotten by themselves, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.machine.devices import forgetting
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.machine.records.state import TOMBSTONES_LIMIT
from tests.support.fake_fleet import FakeAgent, World
from tests.support.tiny_manifest import MB, tiny_manifest

FORGET_S = 500.0
OPTIONS = OrchestratorOptions(forget_s=FORGET_S)


def world_of(*names: str, options: OrchestratorOptions = OPTIONS) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3), options).begin(*names)


def leave(world: World, name: str) -> None:
    agent = world.agents[name]
    world.tell(ev.DeviceStateSeen(name, agent.state("offline"), retained=False))
    agent.online = False


def known(world: World) -> set[str]:
    return {device.name for device in world.machine.state.devices}


def cleared(world: World) -> list[str]:
    return [each.device for each in world.instructions(ins.ClearDevice)]


def test_one_that_left_is_forgotten_after_that_long_and_not_before() -> None:
    world = world_of("a", "b")
    leave(world, "a")
    world.run_for(FORGET_S - 10.0)
    assert known(world) == {"a", "b"}
    world.run_for(20.0)
    assert known(world) == {"b"}
    assert cleared(world) == ["a"]
    assert "a" not in world.absences


def test_one_that_speaks_is_never_forgotten() -> None:
    world = world_of("a")
    world.run_for(10 * FORGET_S)
    assert known(world) == {"a"}
    assert not world.absences


def test_one_whose_last_will_never_came_is_forgotten_too() -> None:
    world = world_of("a")
    world.agents["a"].online = False
    world.run_for(FORGET_S + 60.0)
    assert known(world) == set()


def test_one_that_comes_back_in_time_starts_anew() -> None:
    world = world_of("a")
    for _ in range(4):
        leave(world, "a")
        world.run_for(FORGET_S * 0.8)
        world.agents["a"].start()
        world.run_for(30.0)
    assert known(world) == {"a"}
    assert cleared(world) == []


def test_one_that_was_forgotten_is_met_anew_and_works() -> None:
    world = world_of("a")
    leave(world, "a")
    world.run_for(FORGET_S + 10.0)
    world.agents["a"].start()
    world.run_for(0.5)
    world.submit(items=2)
    world.complete(items=2)
    assert world.outcomes["r1", 1] == ["result"]


def test_what_a_broker_retained_is_of_no_age_and_counts_from_the_orchestrators_start() -> None:
    world = world_of()
    ghost = world.agents["ghost"] = FakeAgent(world, "ghost")
    ghost.boots, ghost.connections, ghost.online = 1, 1, False
    world.tell(ev.DeviceStateSeen("ghost", ghost.state("online"), retained=True))
    world.run_for(FORGET_S - 10.0)
    assert known(world) == {"ghost"}
    world.run_for(20.0)
    assert cleared(world) == ["ghost"]


def test_absence_goes_on_after_a_restart_however_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "LOOK_S", 100.0)
    world = world_of("a")
    leave(world, "a")
    for _ in range(4):
        world.run_for(110.0)
        world.start_orchestrator()
        assert known(world) == {"a"}
    world.run_for(110.0)
    assert cleared(world) == ["a"]


def test_what_the_journal_knows_of_and_no_broker_retained_is_forgotten_too() -> None:
    world = world_of()
    world.absences["gone"] = FORGET_S - 100.0
    world.start_orchestrator()
    world.run_for(110.0)
    assert cleared(world) == ["gone"]
    assert world.absences == {}


def test_time_in_which_we_heard_nobody_does_not_count() -> None:
    world = world_of("a")
    world.tell(ev.Disconnected("gone"))
    world.run_for(3 * FORGET_S)
    world.tell(ev.Connected("again"))
    world.agents["a"].online = False
    world.run_for(FORGET_S - 10.0)
    assert known(world) == {"a"}


def test_with_0_nobody_is_forgotten() -> None:
    world = world_of("a", options=OrchestratorOptions(forget_s=0.0))
    leave(world, "a")
    world.run_for(20 * FORGET_S)
    assert known(world) == {"a"}


@pytest.mark.parametrize("named", [lambda _: "phone", lambda number: f"phone{number}"])
def test_twenty_who_came_and_left_leave_nothing_behind(named: Callable[[int], str]) -> None:
    world = world_of("stays")
    for number in range(20):
        name = named(number)
        agent = world.agents.setdefault(name, FakeAgent(world, name))
        agent.start()
        world.run_for(1.0)
        world.submit(f"r{number}", items=2)
        world.complete(f"r{number}", items=2)
        leave(world, name)
        world.run_for(1.0)
    world.run_for(FORGET_S + 60.0)
    state = world.machine.state
    assert known(world) == {"stays"}
    assert set(cleared(world)) == {named(number) for number in range(20)}
    assert world.absences == {}
    assert set(state.published) <= {"stays"}
    assert set(state.places.devices()) <= {"stays"}
    assert set(state.devices.away) == set()
    assert state.devices.turns.next_at == float("inf")


def test_what_is_kept_of_the_forgotten_is_bounded() -> None:
    world = world_of()
    state = world.machine.state
    for number in range(TOMBSTONES_LIMIT + 20):
        state.keep_revision(f"phone{number}", number)
    assert len(state.revisions) == TOMBSTONES_LIMIT
    assert "phone0" not in state.revisions


def test_each_device_costs_one_look_an_hour() -> None:
    world = world_of(options=OrchestratorOptions())
    for number in range(30):
        world.machine.handle(ev.AssignmentSeen(f"d{number}", 0, ()), world.now)
    wakes = 0
    until = world.now + 10 * forgetting.LOOK_S
    while (wake := world.machine.wake_at()) is not None and wake < until:
        world.machine.handle(ev.Ticked(), wake)
        wakes += 1
    assert wakes <= 12  # and one for the leases
