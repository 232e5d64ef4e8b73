"""What is believed of a device that becomes slow while it works, and what does not make it slow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.planner.estimates import Estimates
from tests.support.fake_fleet import World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.ids import PartitionId
from wire.manifest import Batching, Reference
from wire.messages.requests import RunOptions

MANIFEST = tiny_manifest(weights=[10 * MB] * 3)
BATCHED = replace(
    MANIFEST,
    symbols={**MANIFEST.symbols, "batch": 16},
    reference=Reference("1", 0.0, batching=Batching("batch", (0, 1, 2, 3))),
)
WHOLE = PartitionId(MANIFEST.digest, False, 0, 2)
QUICK_S, SLOW_S = 0.05, 0.25  # of a segment; a task is three of them


def world_at_work(manifest: object = MANIFEST, **asked: int) -> World:
    world = World(manifest).begin("a", compute_s=QUICK_S)  # type: ignore[arg-type] # a manifest
    world.submit(items=120, options=RunOptions(**asked))  # type: ignore[arg-type] # its fields
    world.run_for(5.0)
    assert len(world.outcomes) > 20
    return world


def slowed(world: World) -> int:
    return world.machine.state.counts["slowed"]


def believed_s(world: World) -> float:
    return world.machine.state.estimates.compute_s("a", None, WHOLE, MANIFEST.segments)


def test_a_device_that_stays_slow_is_judged_anew_once_by_what_it_takes_now() -> None:
    world = world_at_work()
    world.agents["a"].compute_s = SLOW_S
    world.run_for(8.0)
    assert slowed(world) == 1
    assert believed_s(world) == pytest.approx(3 * SLOW_S)


def test_its_speed_is_the_new_one_however_many_slow_tasks_were_seen_before() -> None:
    world = world_at_work()
    estimates = world.machine.state.estimates
    before = estimates.cost_per_s("a", None)
    world.agents["a"].compute_s = SLOW_S
    world.run_for(8.0)
    assert estimates.cost_per_s("a", None) == pytest.approx(before * QUICK_S / SLOW_S)
    segments = estimates.of(MANIFEST, False)
    known = [segments.seconds("a", index) for index in range(3)]
    assert sum(each or 0.0 for each in known) == pytest.approx(3 * SLOW_S, rel=0.1)


@pytest.mark.parametrize("slow_tasks", [4, 9, 40])
def test_what_was_measured_since_does_not_become_slower(slow_tasks: int) -> None:
    """Five times as long, seen in few tasks or in many: it is five times as long."""
    estimates = Estimates()
    cost = sum(each.cost for each in MANIFEST.segments)
    estimates.learn_profile("a", MANIFEST, WHOLE, [QUICK_S] * 3)
    for took_s in (*[3 * QUICK_S] * 9, *[3 * SLOW_S] * slow_tasks):
        estimates.learn_task("a", WHOLE, cost, took_s)
    estimates.slowed("a", WHOLE, cost, 5.0)
    assert estimates.compute_s("a", None, WHOLE, MANIFEST.segments) == pytest.approx(3 * SLOW_S)
    assert estimates.cost_per_s("a", None) == pytest.approx(cost / (3 * SLOW_S))
    for index in range(3):
        assert estimates.of(MANIFEST, False).seconds("a", index) == pytest.approx(SLOW_S)


def test_segments_that_are_already_known_to_be_slow_stay_as_they_are() -> None:
    estimates = Estimates()
    cost = sum(each.cost for each in MANIFEST.segments)
    for _ in range(4):
        estimates.learn_profile("a", MANIFEST, WHOLE, [SLOW_S] * 3)
        estimates.learn_task("a", WHOLE, cost, 3 * SLOW_S)
    estimates.slowed("a", WHOLE, cost, 5.0)
    for index in range(3):
        assert estimates.of(MANIFEST, False).seconds("a", index) == pytest.approx(SLOW_S)


def test_other_segments_of_a_slow_device_are_expected_to_take_as_much_longer() -> None:
    estimates = Estimates()
    first = PartitionId(MANIFEST.digest, False, 0, 0)
    estimates.learn_profile("a", MANIFEST, WHOLE, [QUICK_S] * 3)
    estimates.learn_task("a", first, MANIFEST.segments[0].cost, SLOW_S)
    estimates.slowed("a", first, MANIFEST.segments[0].cost, 5.0)
    measured = estimates.of(MANIFEST, False)
    assert [measured.seconds("a", index) for index in range(3)] == pytest.approx([SLOW_S] * 3)


def test_a_hiccup_a_pause_and_one_slow_task_do_not_make_a_device_slow() -> None:
    world = World(MANIFEST).begin("a", compute_s=QUICK_S / 10)
    world.submit("r1", items=30)
    world.complete("r1", items=30)
    world.agents["a"].compute_s = SLOW_S / 10
    world.submit("r2", items=6)
    world.complete("r2", items=6)
    world.run_for(10.0)
    world.submit("r3", items=1)
    world.complete("r3", items=1)
    assert slowed(world) == 0


def test_a_device_that_is_slow_after_each_of_several_pauses_is_slow() -> None:
    world = World(MANIFEST).begin("a", compute_s=QUICK_S)
    world.submit("r0", items=30)
    world.complete("r0", items=30)
    world.agents["a"].compute_s = SLOW_S
    for index in range(1, 9):
        world.submit(f"r{index}", items=1)
        world.complete(f"r{index}", items=1)
        world.run_for(10.0)
    assert slowed(world) == 1


def test_what_an_item_took_beside_others_in_one_call_is_no_measure_for_a_lone_one() -> None:
    world = world_at_work(BATCHED, batch_size=8)
    world.agents["a"].compute_s = SLOW_S
    world.run_for(8.0)
    assert slowed(world) == 0
