"""Only who has or had a place is believed: results, frames, tasks and what is held elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.places import MOST, Places
from tests.support.fake_fleet import World
from tests.support.three_phones import IN_THREE, results, serving, three
from tests.support.tiny_manifest import MB
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages import events as dev
from wire.messages.assignment import Assignment

Lie = Callable[[ActivationId], dev.DeviceEvent]


def task(at: ActivationId) -> TaskId:
    return TaskId(at.run, at.item, at.cut, at.cut + 1)


LIES: dict[str, Lie] = {
    "frame_received": lambda at: dev.FrameReceived(at, "x", 1, 0.0),
    "task_started": lambda at: dev.TaskStarted(task(at), 0.0),
    "task_done": lambda at: dev.TaskDone(task(at), 0.0, 0.0, 0.0, 1e-9, 0.0, 1, 1, 1),
    "task_failed": lambda at: dev.TaskFailed(task(at), "compute_failed", "a lie"),
    "frame_dropped": lambda at: dev.FrameDropped(at, "early", "a lie"),
    "input": lambda at: dev.Inventory(0, 0, (), (at,), task(at), (), ()),
    "output": lambda at: dev.Inventory(0, 0, (at,), (), None, (), ()),
}


def with_an_idle_device(items: int = 3) -> World:
    """Three phones in work; the fourth is too small for anything."""
    world = three(compute_s=0.2)
    world.agents["d"] = type(world.agents["a"])(world, "d", budget=MB)
    world.agents["d"].start()
    world.run_for(0.5)
    world.submit(items=items, options=IN_THREE)
    world.run_for(0.5)
    return world


def listed(assignment: Assignment, first: int) -> tuple[str, ...] | None:
    return next(e.senders for e in assignment.partitions if e.partition.first == first)


def test_an_idle_devices_results_are_discarded_and_counted() -> None:
    world = with_an_idle_device()
    for item in range(3):
        world.tell(ev.ResultArrived("d", world.head(ActivationId("r1", item, 6))))
    world.run_for(0.1)
    assert world.machine.state.counts["unplaced_result"] == 3
    assert len(world.instructions(ins.DiscardPending)) == 3
    assert not world.instructions(ins.StoreOutcome)
    world.complete()
    assert results(world, 3)


def test_so_are_those_of_a_device_with_another_place() -> None:
    world = with_an_idle_device()
    first = serving(world, 0).name
    world.tell(ev.ResultArrived(first, world.head(ActivationId("r1", 0, 6))))
    world.run_for(0.1)
    assert world.machine.state.counts["unplaced_result"] == 1
    world.complete()
    assert results(world, 3)


@pytest.mark.parametrize("what", LIES)
def test_what_an_idle_device_says_changes_nothing(what: str) -> None:
    world = with_an_idle_device()
    state = world.machine.state
    for item in range(3):
        for cut in (0, 2, 4, 6):
            for _ in range(10):
                world.agents["d"].say(LIES[what](ActivationId("r1", item, cut)))
    world.run_for(0.05)
    assert state.counts[f"unplaced_{what}"] >= 100
    for item in state.runs["r1"].items.values():
        assert "d" not in item.holders()
        assert all(cut <= 6 for cut, _ in item.strays)
    world.complete()
    assert results(world, 3)
    assert not state.devices.met("d", world.now).tasks


def test_nor_are_its_measurements_taken() -> None:
    world = with_an_idle_device()
    world.agents["d"].say(dev.Profiled(part(0, 1, world.manifest.digest), (1e-9, 1e-9)))
    world.run_for(0.1)
    assert world.machine.state.counts["unplaced_profile"] == 1
    assert "d" not in {each.device for each in world.times.values()}


def test_frames_that_an_idle_device_tears_end_nothing() -> None:
    world = with_an_idle_device()
    for _ in range(20):
        world.tell(ev.FrameLost("d", ActivationId("r1", 0, 6), "timed_out", "1 of 3 parts"))
    world.run_for(0.05)
    assert world.machine.state.counts["unplaced_frame_lost"] == 20
    world.complete()
    assert results(world, 3)


def test_copies_of_strangers_that_are_dropped_end_nothing() -> None:
    world = with_an_idle_device()
    second = serving(world, 2)
    at = ActivationId("r1", 2, 2)
    for _ in range(20):
        second.say(dev.FrameDropped(at, "early", "nobody takes it from d", "d"))
    world.run_for(0.05)
    assert world.machine.state.counts["unplaced_sender"] == 20
    assert world.machine.state.runs["r1"].items[2].drops == {}
    world.complete()
    assert results(world, 3)


def test_an_input_that_was_a_strangers_is_sent_for_again() -> None:
    world = with_an_idle_device(1)
    second, at = serving(world, 2), ActivationId("r1", 0, 2)
    world.lose_frame = lambda sender, activation, to: activation == at
    world.run_for(5.0, lambda: bool(world.happened("TaskDone")))
    second.say(dev.Inventory(0, 0, (), (at,), None, (), ()))  # it came before the assignment
    world.run_for(1.0)
    world.lose_frame = lambda sender, activation, to: False
    second.say(dev.FrameDropped(at, "early", "nobody takes it from d", "d"))
    world.complete(items=1, limit_s=5.0)
    assert results(world, 1)


def test_who_had_a_place_still_answers() -> None:
    world = three(4, compute_s=0.5)
    world.submit(items=1, options=IN_THREE)
    world.run_for(1.0)
    last = serving(world, 4)
    last.say_state("draining")
    world.run_for(0.5)
    assert serving(world, 4) is not last
    world.tell(ev.ResultArrived(last.name, world.head(ActivationId("r1", 0, 6))))
    world.run_for(0.1)
    assert results(world, 1)


def test_assignments_say_who_may_send() -> None:
    world = three(4, compute_s=0.5)
    world.submit(items=4, options=IN_THREE)
    world.run_for(3.0)
    first, second = serving(world, 0), serving(world, 2)
    assert listed(world.retained[first.name], 0) == ("orchestrator",)
    assert listed(world.retained[second.name], 2) == (first.name,)
    first.say_state("draining")
    world.run_for(1.0)
    other = serving(world, 0)
    assert other is not first
    assert listed(world.retained[second.name], 2) == tuple(sorted((first.name, other.name)))


def test_and_who_is_found_to_have_had_a_place_is_named_too() -> None:
    world = with_an_idle_device()
    world.run_for(1.0)
    second = serving(world, 2)
    former = PartitionId(world.manifest.digest, False, 1, 1)
    world.tell(ev.AssignmentSeen("d", 0, (former,)))
    world.run_for(0.1)
    named = listed(world.retained[second.name], 2)
    assert named is not None
    assert "d" in named


@pytest.mark.parametrize("retained", [True, False])
def test_after_a_restart_places_are_those_of_the_retained_assignments(retained: bool) -> None:
    world = three(compute_s=0.3)
    world.submit(items=2, options=IN_THREE)
    world.run_for(20.0, lambda: len(world.happened("TaskDone")) >= 2)
    if not retained:
        world.retained.clear()
    world.start_orchestrator()
    for agent in world.agents.values():
        agent.report()
    world.complete(items=2)
    assert results(world, 2)
    unheeded = sum(n for what, n in world.machine.state.counts.items() if "unplaced" in what)
    assert (unheeded == 0) is retained


def test_a_device_that_is_asked_for_what_it_said_too_early_is_believed_then() -> None:
    world = three(compute_s=0.3)
    world.submit(items=2, options=IN_THREE)
    world.run_for(20.0, lambda: len(world.happened("TaskDone")) >= 2)
    kept = dict(world.retained)
    world.retained.clear()
    world.start_orchestrator()
    for agent in world.agents.values():
        agent.report()
    world.run_for(0.2)
    assert world.machine.state.counts["unplaced_output"]
    for name, assignment in kept.items():
        parts = tuple(each.partition for each in assignment.partitions)
        world.tell(ev.AssignmentSeen(name, assignment.generation, parts))
    world.run_for(0.5)
    assert any(item.outputs for item in world.machine.state.runs["r1"].items.values())
    world.complete(items=2)
    assert results(world, 2)


def test_a_forgotten_device_has_no_place_and_is_not_hurt() -> None:
    world = three(4, compute_s=0.2)
    world.submit(items=6, options=IN_THREE)
    world.run_for(1.5)
    last = serving(world, 4)
    world.tell(ev.ForgetAsked(last.name))
    world.run_for(0.1)
    assert world.machine.state.places.of(last.name) == ()
    last.connect()
    world.complete(items=6)
    assert results(world, 6)


def test_a_model_that_goes_takes_its_places_along() -> None:
    world = three()
    world.submit(items=1)
    world.complete(items=1)
    assert list(world.machine.state.places.devices())
    world.tell(ev.ModelRemoved(world.manifest.name))
    world.run_for(0.1)
    assert list(world.machine.state.places.devices()) == []


def test_an_output_without_a_place_gives_way_and_goes_with_its_item() -> None:
    world = with_an_idle_device(12)
    idle, at = world.agents["d"], ActivationId("r1", 1, 2)
    for full in (True, False):
        idle.outputs[at] = 0
        idle.report()
        world.run_for(0.3)
        assert at in idle.outputs
        if full:
            idle.say(dev.FrameDropped(ActivationId("r1", 0, 0), "too_large", "no room"))
            world.run_for(0.3)
            assert at not in idle.outputs
    world.complete(items=12)
    assert at not in idle.outputs


# --- the record -----------------------------------------------------------------------------------


def part(first: int, last: int, model: str = "m", exact: bool = False) -> PartitionId:
    return PartitionId(model, exact, first, last)


def test_a_place_is_of_one_mode_and_range() -> None:
    places = Places()
    assert places.note("a", (part(0, 1),))
    assert not places.note("a", (part(0, 1),))
    assert places.serves("a", part(0, 1))
    assert not places.serves("a", part(0, 2))
    assert places.takes("a", ("m", False), 0)
    assert places.makes("a", ("m", False), 2)
    assert not places.makes("a", ("m", True), 2)
    assert not places.makes("b", ("m", False), 2)


def test_ranges_that_end_together_count_until_the_last_of_them_goes() -> None:
    places = Places()
    places.note("a", (part(0, 3), part(2, 3), part(2, 3, "n")))
    places.forget_model("n")
    assert places.makers(("m", False), 4, 9) == ["a"]
    assert places.makers(("n", False), 4, 9) == []
    places.forget_device("a")
    assert (places.by_cut("makers"), places.by_cut("takers")) == ({}, {})


def test_of_many_who_made_the_same_those_who_were_told_last_are_named() -> None:
    places = Places()
    for device in ("a", "b", "c", "a"):
        places.note(device, (part(0, 1), part(2, 3)))
    assert places.makers(("m", False), 2, 2) == ["a", "c"]


def test_a_device_has_so_many_places_and_loses_the_oldest() -> None:
    places = Places()
    for first in range(MOST + 10):
        places.note("a", (part(first, first), part(0, 999)))
    assert len(places.of("a")) == MOST
    assert places.serves("a", part(0, 999))
    assert not places.serves("a", part(0, 0))
    many = tuple(part(first, first, "n") for first in range(MOST + 5))
    places.note("a", many)
    assert places.of("a") == many
