"""Items that end the agents which run them, and all the others that only seem to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.machine.devices import deaths
from orchestrator.machine.items.suspects import LONELY_S, MOST_DEATHS, PROOF_S
from orchestrator.machine.records import events as ev
from orchestrator.machine.records.suspicion import Suspicion
from tests.support.calls import count_calls
from tests.support.fake_agent import FakeAgent
from tests.support.fake_fleet import World
from tests.support.three_phones import IN_THREE, results, serving, three
from wire.errors import EndsDevice, LoadEndsDevice
from wire.ids import PartitionId, TaskId
from wire.messages.requests import ItemFailed
from wire.messages.state import LastWork


def running(count: int = 3, first: int = 2, items: int = 3) -> tuple[World, FakeAgent]:
    """A world whose device for segment `first` has just begun its first task."""
    world = three(count, compute_s=1.0)
    world.submit(items=items, options=IN_THREE)
    begun = f"first={first}"
    world.run_for(20.0, lambda: any(begun in text for _, _, text in world.happened("TaskStarted")))
    world.run_for(0.05)
    return world, serving(world, first)


def suspicion_of(world: World, item: int = 0) -> Suspicion | None:
    found = world.machine.state.item("r1", item)
    return found.suspicion if found is not None else None


def ended_by(world: World, *items: int) -> list[TaskId]:
    """All agents die of these items; the tasks they died of, once they did."""
    died: list[TaskId] = []

    def dies_of(task: TaskId) -> bool:
        if task.item in items and task.first == 2:
            died.append(task)
            return True
        return False

    for agent in world.agents.values():
        agent.dies_of = dies_of
    return died


@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_an_item_that_ends_its_devices_has_an_error_that_names_them(count: int) -> None:
    world = three(count)
    died = ended_by(world, 1)
    if count < 3:
        for agent in world.agents.values():
            # `append` gives None: the task is noted, and its device dies of it.
            agent.dies_of = lambda task: task.item == 1 and not died.append(task)  # type: ignore[func-returns-value] # so
    world.submit(items=8, options=IN_THREE if count >= 3 else None)
    world.complete(items=8, limit_s=200.0)
    assert world.outcomes["r1", 1] == [EndsDevice.kind]
    assert len(died) == 4
    told = next(each for each in world.told if isinstance(each, ItemFailed))
    assert "item 1 ended the agent of its device 4 times" in told.reason
    assert all(world.outcomes["r1", item] == ["result"] for item in range(8) if item != 1)


def test_others_have_their_results_before_it_is_tried_alone() -> None:
    world = three(3)
    died = ended_by(world, 0)
    world.submit(items=30, options=IN_THREE)
    world.run_for(200.0, lambda: len(died) == 3)
    world.run_for(200.0, lambda: len(died) == 4)
    assert all(world.outcomes["r1", item] == ["result"] for item in range(1, 30))
    world.complete(items=30, limit_s=60.0)


def test_a_device_that_ends_makes_suspect_what_it_ran_and_nothing_that_waited_there() -> None:
    world, device = running()
    device.die()
    world.run_for(0.05)
    assert suspicion_of(world, 0) == Suspicion({(device.name, f"{device.name}-b1"): False})
    assert suspicion_of(world, 1) is None
    assert suspicion_of(world, 2) is None


def test_another_boot_proves_it() -> None:
    world, device = running()
    device.start()
    world.run_for(0.05)
    suspicion = suspicion_of(world)
    assert suspicion is not None
    assert suspicion.deaths == {(device.name, f"{device.name}-b1"): True}


def test_a_connection_that_was_only_lost_is_no_death() -> None:
    world, device = running()
    device.say_state("offline")
    world.run_for(0.05)
    assert suspicion_of(world) is not None
    device.connect()
    world.run_for(0.05)
    assert suspicion_of(world) is None
    world.complete()
    assert results(world, 3)


def test_a_farewell_is_no_death() -> None:
    world, device = running()
    device.say_state("draining")
    device.say_state("offline")
    device.online = False
    device.boots += 1
    world.run_for(0.05)
    assert suspicion_of(world) is None
    device.start()
    world.run_for(0.05)
    assert suspicion_of(world) is None


def test_a_lost_lease_is_no_death_while_the_device_may_only_stand_still() -> None:
    world, device = running(4)
    device.mute, device.online = True, False
    world.run_for(40.0)
    assert world.machine.state.devices.get(device.name).life.state == "lost"  # type: ignore[union-attr] # it is there
    assert suspicion_of(world) is None


def test_a_device_that_a_person_forgot_did_not_die_of_anything() -> None:
    world, device = running()
    world.tell(ev.ForgetAsked(device.name))
    world.run_for(0.05)
    assert suspicion_of(world) is None
    device.start()
    world.run_for(0.05)
    assert suspicion_of(world) is None


@pytest.mark.parametrize(
    ("task", "suspected"),
    [(None, ()), (TaskId("r1", 1, 2, 3), (1,)), (TaskId("r1", 0, 2, 3), (0,))],
)
def test_what_the_device_noted_counts_more_than_what_it_told(
    task: TaskId | None, suspected: tuple[int, ...]
) -> None:
    """The end of one task and the start of the next may not have been told any more."""
    world = three(compute_s=0.2)
    world.submit(options=IN_THREE)
    world.run_for(20.0, lambda: bool(world.happened("TaskStarted")))
    (plan,) = world.machine.state.plans.values()
    device = world.agents[plan.placements[1].likely or ""]
    device.compute_s = 5.0
    world.run_for(2.0)  # item 0 runs there, and item 1 waits
    device.die()
    world.run_for(0.05)
    device.last_work = LastWork(f"{device.name}-b1", task=task)
    device.start()
    world.run_for(0.05)
    assert tuple(item for item in range(3) if suspicion_of(world, item)) == suspected


def test_a_note_of_a_boot_that_was_not_known_proves_nothing() -> None:
    world, device = running()
    idle = next(agent for agent in world.agents.values() if agent is not device)
    idle.last_work = LastWork("another-boot", task=TaskId("r1", 0, 2, 3))
    idle.start()
    world.run_for(0.05)
    found = suspicion_of(world)
    assert found is None or (idle.name, "another-boot") not in found.deaths


def test_a_note_about_an_item_that_the_device_never_had_is_not_believed() -> None:
    world, _ = running(4)
    plan = next(iter(world.machine.state.plans.values()))
    spare = next(agent for name, agent in world.agents.items() if name not in plan.devices())
    spare.last_work = LastWork(f"{spare.name}-b1", task=TaskId("r1", 0, 2, 3))
    spare.start()
    world.run_for(0.05)
    assert suspicion_of(world) is None


def test_devices_that_never_come_back_prove_it_after_a_while() -> None:
    world = three(6)
    for agent in world.agents.values():
        agent.dies_of = lambda task: task.item == 0 and task.first == 2
        agent.start = lambda: None  # type: ignore[method-assign] # nobody starts it again
    world.submit(items=1, options=replace(IN_THREE, partitions=None))
    for agent in world.agents.values():
        agent.dies_of = lambda task: task.item == 0
    began = world.now
    world.complete(items=1, limit_s=400.0)
    assert world.outcomes["r1", 0] == [EndsDevice.kind]
    assert world.now - began > PROOF_S
    assert sum(agent.online for agent in world.agents.values()) == 2


def test_an_item_never_ends_more_boots_than_the_most() -> None:
    world, device = running()
    state = world.machine.state
    item = state.item("r1", 0)
    known = state.devices.get(device.name)
    assert item is not None
    assert known is not None
    for number in range(MOST_DEATHS):
        assert item.outcome is None
        known.boot = f"boot{number}"
        deaths.prove(state, known, LastWork(known.boot, task=TaskId("r1", 0, 2, 3)))
    assert item.outcome is not None
    assert item.outcome.kind == EndsDevice.kind


def test_a_death_looks_at_one_item_however_many_the_device_holds() -> None:
    def cost(items: int) -> int:
        world, device = running(items=items)
        state = world.machine.state
        known = state.devices.get(device.name)
        assert known is not None
        return count_calls(lambda: deaths.prove(state, known, None))

    assert cost(3) == cost(30)


def test_others_wait_no_longer_than_a_minute_for_a_trial_that_takes_long() -> None:
    world = three(3, compute_s=0.2)
    ended_by(world, 0)
    world.submit(items=1, options=IN_THREE)
    state = world.machine.state
    world.run_for(60.0, lambda: any(plan.lonely for plan in state.plans.values()))
    (plan,) = state.plans.values()
    for agent in world.agents.values():
        agent.compute_s = 200.0
    began = world.now
    world.run_for(300.0, lambda: not plan.lonely)
    assert LONELY_S - 5.0 < world.now - began < LONELY_S + 5.0
    assert state.item("r1", 0) is plan.trial


# --- loads ------------------------------------------------------------------------------------


def dies_loading(device: FakeAgent, part: PartitionId) -> None:
    device.die()
    device.last_work = LastWork(f"{device.name}-b{device.boots - 1}", partition=part)
    device.start()


def test_a_load_that_ended_a_device_twice_is_asked_of_it_less_and_less() -> None:
    world, device = running(4)
    part = serving_part(world)
    known = world.machine.state.devices.get(device.name)
    assert known is not None
    waits = []
    for _ in range(4):
        dies_loading(device, part)
        world.run_for(0.05)
        refusal = known.refused.get(part)
        waits.append(round(refusal.until - world.now, 0) if refusal is not None else 0)
    assert waits == [0, 30, 60, 120]
    assert known.refused[part].failure.kind == LoadEndsDevice.kind
    assert device.name in known.refused[part].failure.reason


def test_a_load_that_succeeds_is_forgiven() -> None:
    world, device = running(4)
    part = serving_part(world)
    known = world.machine.state.devices.get(device.name)
    assert known is not None
    dies_loading(device, part)
    world.run_for(0.05)
    deaths.loaded(world.machine.state, known, part)
    dies_loading(device, part)
    world.run_for(0.05)
    assert part not in known.refused


def test_a_device_that_was_switched_off_while_it_loaded_has_nothing_against_the_load() -> None:
    world = three(4)
    world.submit(options=IN_THREE)
    world.run_for(20.0, lambda: any(_loads(world, name) for name in world.agents))
    name = next(name for name in world.agents if _loads(world, name))
    plan = next(iter(world.machine.state.plans.values()))
    placement = next(each for each in plan.placements if each.device == name)
    device = world.agents[name]
    device.die()
    world.run_for(0.05)
    assert placement.load_deaths == {name: None}
    device.last_work = LastWork(f"{name}-b1")
    device.start()
    world.run_for(0.05)
    assert placement.load_deaths == {}
    assert not world.machine.state.devices.get(name).load_deaths  # type: ignore[union-attr] # it is there


def _loads(world: World, name: str) -> bool:
    device = world.machine.state.devices.get(name)
    told = device.residency.values() if device is not None else ()
    return any(entry.status == "loading" for entry in told)


def serving_part(world: World) -> PartitionId:
    plan = next(iter(world.machine.state.plans.values()))
    return plan.placements[1].partition
