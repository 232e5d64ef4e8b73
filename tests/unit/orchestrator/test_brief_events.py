"""A task that is told by its end alone: its input had come, and it was begun."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import pytest

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.device import Device
from orchestrator.machine.records.item import Item
from tests.support.fake_fleet import FakeAgent, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.ids import TaskId
from wire.messages import commands as cmd
from wire.messages import events as dev
from wire.messages.requests import RunOptions

OWN = ("life", "agenda", "involved", "keeper", "last_seq", "running_seq", "unacknowledged")


def two_stages() -> World:
    """An item whose second stage got its input, and told nothing of it."""
    world = World(tiny_manifest(weights=[10 * MB] * 4)).begin("a", "b")
    for agent in world.agents.values():
        agent.brief = True
    world.submit(items=1, options=RunOptions(partitions=2))
    world.run_for(10.0, lambda: bool(waits_in(world)))
    assert waits_in(world), "the second stage has its input"
    return world


def waits_in(world: World) -> str:
    """The second stage's device, if its input is there and was not told of."""
    return next((each.name for each in world.agents.values() if _has_second(each)), "")


def _has_second(agent: FakeAgent) -> bool:
    came = [each for each in agent.gathered if isinstance(each, dev.FrameReceived)]
    return any(each.activation.cut > 0 for each in came)


def task_of(world: World) -> TaskId:
    plan = next(iter(world.machine.state.plans.values()))
    part = plan.placements[1].partition
    return TaskId("r1", 0, part.first, part.last)


def done(task: TaskId) -> dev.TaskDone:
    return dev.TaskDone(task, 0.0, 0.0, 0.0, 0.02, 0.0, 100, 100, 100, to="orchestrator")


def whole(task: TaskId) -> tuple[dev.DeviceEvent, ...]:
    came = dev.FrameReceived(task.needs, "d", 100, 0.0)
    return came, dev.TaskStarted(task, 0.0), done(task)


def told(world: World, machine: OrchestratorMachine, *events: dev.DeviceEvent) -> list[Any]:
    """All that the machine says to the second stage's batch, acknowledgements aside."""
    known = second(world, machine)
    agent = world.agents[known.name]
    batch = dev.EventBatch(agent.boot, agent.connection, (known.last_seq or 0) + 1, events)
    out = machine.handle(ev.EventsArrived(known.name, batch), world.now)
    machine.validate()
    return [*map(_unacknowledged, out), *map(_unacknowledged, _a_moment_later(world, machine))]


def _a_moment_later(world: World, machine: OrchestratorMachine) -> list[ins.Instruction]:
    return machine.handle(ev.Ticked(), world.now + 0.2)


def _unacknowledged(said: ins.Instruction) -> Any:
    if not isinstance(said, ins.PublishCommands):
        return said
    rest = [each for each in said.batch.commands if not isinstance(each, cmd.Acknowledge)]
    return said.device, rest


def second(world: World, machine: OrchestratorMachine) -> Device:
    found = machine.state.devices.get(waits_in(world))
    assert found is not None
    return found


def state_of(world: World, machine: OrchestratorMachine) -> Any:
    state, device = machine.state, second(world, machine)
    item = state.item("r1", 0)
    assert item is not None
    return tables(item), item.state, tables(device), state.counts, state.agenda.wake_at


def tables(of: Item | Device) -> dict[str, Any]:
    return {each.name: getattr(of, each.name) for each in fields(of) if each.name not in OWN}


@pytest.mark.parametrize("seen", [0, 1, 2])
def test_the_end_of_a_task_says_what_its_beginning_would_have_said(seen: int) -> None:
    """`seen`: so many of the earlier events had come before."""
    world = two_stages()
    machine, events = world.machine, whole(task_of(world))
    if seen:
        told(world, machine, *events[:seen])
    other = copy.deepcopy(machine)
    assert told(world, machine, *events[seen:]) == told(world, other, events[-1])
    assert state_of(world, machine) == state_of(world, other)


def test_the_end_of_a_task_lets_the_outputs_before_its_input_go() -> None:
    world = World(tiny_manifest(weights=[10 * MB] * 6)).begin("a", "b", "c")
    for agent in world.agents.values():
        agent.brief = True
    world.submit(items=6, options=RunOptions(partitions=3))
    world.complete(items=6)
    batches = list(world.instructions(ins.PublishCommands))
    released = [each for one in batches for each in one.batch.commands if each.type == "release"]
    assert {each.run for each in released} == {"r1"}
    assert not any(agent.outputs for agent in world.agents.values())


def test_the_end_of_a_task_is_its_devices_last_work_that_ended() -> None:
    """Another began before it, of which no end was told: it is not what a death is charged to."""
    world = two_stages()
    task = task_of(world)
    told(world, world.machine, dev.TaskStarted(TaskId("r1", 7, task.first, task.last), 0.0))
    told(world, world.machine, done(task))
    assert second(world, world.machine).running is None


def test_a_task_that_began_after_the_one_that_ended_goes_on() -> None:
    world = two_stages()
    task = task_of(world)
    follower = TaskId("r1", 1, task.first, task.last)
    told(world, world.machine, dev.TaskStarted(follower, 0.0), done(task))
    assert second(world, world.machine).running == follower
