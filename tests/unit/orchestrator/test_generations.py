"""Generations: ours rises above every other, and who may say that there was one."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from orchestrator.machine.devices.residencies import BELIEVED_MOST, CLAIMS, LIKELY
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from orchestrator.machine.records.state import ATTEMPTS, GENERATIONS, State
from tests.support.few_devices import quiet, world_of
from wire.frame_head import FrameSettings
from wire.frames import Frame, attempt_of, encode_frame
from wire.ids import ActivationId
from wire.messages import events as dev
from wire.messages.residency import Failure, Residency
from wire.record_readers import MAX_INT


@pytest.mark.parametrize("where", ["assignment", "residency", "inventory"])
def test_a_higher_generation_is_risen_above_wherever_it_is_seen(where: str) -> None:
    world, agent = quiet()
    if where == "assignment":
        world.tell(ev.AssignmentSeen("z", 7))
    elif where == "residency":
        world.tell(ev.ResidencySeen("a", Residency(agent.connection, 7, 1, (), 0, 0), False))
    else:
        agent.say(dev.Inventory(7, 1, (), (), None, (), ()))
    world.run_for(0.1)
    assert world.instructions(ins.RaiseGeneration) == [ins.RaiseGeneration(7)]


def test_retained_words_of_a_device_raise_no_generation() -> None:
    world, agent = quiet()
    told = Residency(agent.connection, 7, 1, (), 0, 0)
    world.tell(ev.ResidencySeen("a", told, retained=True))
    world.tell(ev.ResidencySeen("b", dataclasses.replace(told, connection="b-c9"), retained=False))
    world.run_for(0.1)
    assert world.instructions(ins.RaiseGeneration) == []


def test_an_unlikely_generation_is_not_believed_of_a_retained_assignment_either() -> None:
    world, _ = quiet()
    for generation in (LIKELY + 100, BELIEVED_MOST + 1, MAX_INT):
        world.tell(ev.AssignmentSeen("z", generation))
    world.run_for(0.1)
    assert world.instructions(ins.RaiseGeneration) == []
    assert world.machine.state.counts["unlikely_generation"] == 3


def test_a_device_is_believed_within_reason_and_a_few_times_that_there_was_a_higher_generation():
    world, agent = quiet()
    for generation in (LIKELY + 100, *range(7, 7 + 2 * CLAIMS)):
        told = Residency(agent.connection, generation, 1, (), 0, 0)
        world.tell(ev.ResidencySeen("a", told, retained=False))
        world.run_for(0.1)
    assert len(world.instructions(ins.RaiseGeneration)) == CLAIMS
    assert world.machine.state.counts["unlikely_generation"] == CLAIMS + 1


def test_not_even_many_devices_raise_the_generation_beyond_what_attempts_have_room_for() -> None:
    world = world_of(*"abcdef")
    state = world.machine.state
    for at in range(1, 10):
        for name, agent in world.agents.items():
            told = Residency(agent.connection, at * LIKELY, 1, (), 0, 0)
            world.tell(ev.ResidencySeen(name, told, retained=False))
        world.run_for(0.1)
        world.tell(ev.GenerationRaised(max(state.generation, state.raising) + 1))  # as on disk
        world.run_for(0.1)
    assert BELIEVED_MOST < state.generation < GENERATIONS - LIKELY
    world.submit(items=2)
    world.complete(items=2)


@pytest.mark.parametrize("generation", [1, GENERATIONS - 1, GENERATIONS, 9_000_000, MAX_INT])
def test_attempts_of_any_generation_fit_into_a_frame(generation: int) -> None:
    state = State(OrchestratorOptions())
    state.generation = generation
    last = state.first_attempt + ATTEMPTS - 1
    frame = Frame("a" * 64, ActivationId("r", 0, 0), last, FrameSettings(), ())
    assert attempt_of(encode_frame(frame)) == last


def test_with_a_raised_generation_all_assignments_go_out_again() -> None:
    world = world_of("a", "b", "c")
    world.submit(items=1)
    world.complete(items=1)
    world.tell(ev.GenerationRaised(9))
    world.run_for(0.1)
    assert {each.generation for each in world.retained.values()} == {9}
    states: list[Any] = world.instructions(ins.PublishState)
    assert states[-1].state.generation == 9


def test_a_stale_failure_of_an_earlier_assignment_is_not_believed() -> None:
    world = world_of("a", "b")
    world.submit(items=1)
    world.complete(items=1)
    assignment = world.retained["a"]
    part = assignment.partitions[0].partition
    entry = dataclasses.replace(
        world.agents["a"].status[part],
        status="failed",
        failure=Failure("load_failed", "no"),
    )
    stale = Residency(world.agents["a"].connection, 0, 99, (entry,), 0, 0)
    world.tell(ev.ResidencySeen("a", stale, False))
    world.run_for(0.1)
    assert world.machine.state.counts["stale_residency"] == 1
    assert world.retained["a"] == assignment
