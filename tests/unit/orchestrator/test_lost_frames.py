"""Frames that cannot be read: sent again, then their sender is at fault, and not the item."""

from __future__ import annotations

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.fake_fleet import World
from tests.support.three_phones import IN_THREE, results, serving, three
from wire.ids import ActivationId
from wire.messages import events as dev

DROPS = OrchestratorOptions().drops
RESULT, INNER = ActivationId("r1", 0, 6), ActivationId("r1", 0, 2)


def busy(phones: int = 4) -> World:
    world = three(phones, compute_s=0.5)
    world.submit(items=3, options=IN_THREE)
    world.run_for(5.0, lambda: bool(world.happened("TaskDone")))
    world.run_for(0.6)
    return world


def tear_result(world: World, sender: str, times: int) -> None:
    for _ in range(times):
        world.tell(ev.FrameLost(sender, RESULT, "malformed", "not a frame"))
    world.run_for(0.05)


def test_what_a_device_sends_unreadable_is_computed_by_another() -> None:
    world = busy()
    last = serving(world, 4).name
    tear_result(world, last, DROPS + 1)
    item = world.machine.state.runs["r1"].items[0]
    assert item.outcome is None
    assert item.detours[4] != last
    world.complete()
    assert results(world, 3)


def test_so_is_what_the_next_device_could_not_read() -> None:
    world = busy()
    first, second = serving(world, 0).name, serving(world, 2)
    for _ in range(DROPS + 1):
        second.say(dev.FrameDropped(INNER, "malformed", "not a frame", first))
    world.run_for(0.05)
    item = world.machine.state.runs["r1"].items[0]
    assert item.outcome is None
    assert item.detours[0] != first
    world.complete()
    assert results(world, 3)


def test_who_had_the_place_before_cannot_hold_up_the_item() -> None:
    world = busy()
    last = serving(world, 4).name
    world.agents[last].say_state("draining")
    world.run_for(0.5)
    assert serving(world, 4).name != last
    tear_result(world, last, 50)
    state = world.machine.state
    assert state.counts["unheeded_frame_lost"] >= 50 - DROPS - 1
    world.complete()
    assert results(world, 3)


@pytest.mark.parametrize("kind", ["early", "queue_full"])
def test_what_the_reader_has_no_room_for_is_not_its_senders_fault(kind: str) -> None:
    world = busy()
    first, second = serving(world, 0).name, serving(world, 2)
    for _ in range(DROPS + 1):
        second.say(dev.FrameDropped(INNER, kind, "no room", first))
    world.run_for(0.05)
    assert world.outcomes["r1", 0] == [kind]


def test_one_senders_frames_are_not_counted_against_anothers() -> None:
    world = busy()
    last = serving(world, 4).name
    tear_result(world, last, DROPS)
    second, first = serving(world, 2), serving(world, 0).name
    for _ in range(DROPS):
        second.say(dev.FrameDropped(INNER, "malformed", "not a frame", first))
    world.run_for(0.05)
    assert not world.machine.state.runs["r1"].items[0].detours
    world.complete()
    assert results(world, 3)
