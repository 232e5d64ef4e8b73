"""What devices took for segments: the middle of a few, in the unit of the estimates, kept over a
restart, and what plans make of it."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.events import ForgetAsked, ModelRemoved
from orchestrator.planner.crowd import Crowd
from orchestrator.planner.measured import Measured
from orchestrator.planner.recent import KEPT, Recent
from orchestrator.planner.stages import STREAMED_FACTOR
from tests.support.fake_fleet import FakeAgent, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages.requests import Planned, RequestPlan, RunOptions

seconds = st.floats(1e-3, 1e3)


def recent(*values: float) -> Recent:
    known = Recent()
    for value in values:
        known.add(value)
    return known


def test_the_first_run_counts_only_until_there_is_a_second() -> None:
    assert recent(9.0).middle == 9.0
    assert recent(9.0, 1.0).middle == 1.0
    assert recent(9.0, 1.0, 1.2).middle == pytest.approx(1.1)


def test_nothing_measured_has_no_middle() -> None:
    with pytest.raises(ValueError, match="nothing"):
        _ = Recent().middle


@given(st.lists(seconds, min_size=8, max_size=40), st.integers(0, 3), st.floats(10, 1e6))
def test_a_few_slow_runs_among_many_do_not_move_the_middle_beyond_the_others(
    values: list[float], slow: int, factor: float
) -> None:
    usual = [1.0 + value * 1e-4 for value in values]
    spoilt = [*usual[:-slow], *(factor * each for each in usual[-slow:])] if slow else usual
    assert min(usual) <= recent(*spoilt).middle <= max(usual)


@given(st.lists(seconds, min_size=KEPT + 1, max_size=KEPT + 30))
def test_only_the_last_few_count(values: list[float]) -> None:
    assert recent(*values).middle == recent(0.0, *values[-KEPT:]).middle


def speed_of(measured: Measured, device: str) -> float:
    speed = measured.speed(device)
    assert speed is not None
    return speed


worlds = st.integers(1, 8).flatmap(
    lambda count: st.tuples(
        st.lists(st.floats(1e6, 1e12), min_size=count, max_size=count),
        st.lists(st.floats(0.05, 20), min_size=count, max_size=count),
        st.lists(st.floats(1e8, 1e12), min_size=1, max_size=4),
    )
)


@given(worlds)
def test_costs_that_all_devices_showed_are_true_up_to_their_unit(
    world: tuple[list[float], list[float], list[float]],
) -> None:
    """Every device ran every segment: seconds on any of them are what costs and speeds say."""
    estimated, factors, speeds = world
    true = [cost * factor for cost, factor in zip(estimated, factors, strict=True)]
    measured = Measured(estimated, [1] * (len(true) + 1))
    for index, speed in enumerate(speeds):
        took = [max(cost / speed, 1e-6) for cost in true]
        for _ in range(3):
            measured.segments_took(f"d{index}", 0, took)
        assert measured.speed(f"d{index + 1}") is None
    for index, speed in enumerate(speeds):
        told = [cost / speed_of(measured, f"d{index}") for cost in measured.costs]
        if all(cost / each > 1e-6 for cost in true for each in speeds):
            assert told == pytest.approx([cost / speed for cost in true], rel=1e-6)
    assert sum(measured.costs) == pytest.approx(sum(estimated), rel=1e-6)


@given(worlds, st.data())
def test_what_a_device_ran_takes_by_its_costs_what_it_took(
    world: tuple[list[float], list[float], list[float]], data: st.DataObject
) -> None:
    """One device, some of the segments: those add up, the others keep their estimate."""
    estimated, factors, _ = world
    first = data.draw(st.integers(0, len(estimated) - 1))
    took = factors[first:]
    measured = Measured(estimated, [1] * (len(estimated) + 1))
    measured.segments_took("d", first, took)
    total_s = sum(measured.costs[first:]) / speed_of(measured, "d")
    assert total_s == pytest.approx(sum(took))
    assert measured.costs[:first] == tuple(estimated[:first])
    assert measured.measured == frozenset(range(first, len(estimated)))


def test_a_dear_segment_that_others_ran_too_does_not_make_its_device_slow() -> None:
    measured = Measured([1e9, 1e9], [1, 1, 1])
    for device in ("a", "b"):
        measured.segments_took(device, 0, [0.9, 0.1])
    measured.segments_took("c", 0, [0.9])
    assert speed_of(measured, "c") == pytest.approx(speed_of(measured, "a"), rel=0.2)


def test_frames_that_passed_say_how_large_those_of_other_cuts_will_be() -> None:
    measured = Measured([1e9] * 2, [1000, 4000, 100])
    assert measured.cut_nbytes == (1000, 4000, 100)
    measured.crossed(0, 250)
    assert measured.cut_nbytes == (250, 1000, 25)


def test_a_streamed_run_counts_only_where_no_other_is_known() -> None:
    measured = Measured([1e9], [1, 1])
    measured.segments_took("d", 0, [2.0 * STREAMED_FACTOR], streamed=True)
    assert measured.seconds("d", 0) == pytest.approx(2.0)
    measured.segments_took("d", 0, [1.0])
    assert measured.seconds("d", 0) == 1.0


def test_a_forgotten_device_leaves_nothing_behind() -> None:
    measured = Measured([1e9], [1, 1])
    measured.segments_took("d", 0, [3.0])
    measured.forget("d")
    assert measured.seconds("d", 0) is None
    assert measured.costs == (1e9,)


def test_of_many_devices_a_few_tell_the_costs_and_each_has_its_own_speed() -> None:
    true = [4e9, 1e9, 2e9]
    measured = Measured([2e9, 2e9, 3e9], [1] * 4)
    for number in range(200):
        speed = 1e9 * (1 + number % 9)
        measured.segments_took(f"d{number}", 0, [cost / speed for cost in true])
    assert measured.costs == pytest.approx(true)
    for number in range(200):
        assert speed_of(measured, f"d{number}") == pytest.approx(1e9 * (1 + number % 9))
    for number in range(200):
        measured.forget(f"d{number}")
    assert measured.measured == frozenset()
    assert measured.costs == (2e9, 2e9, 3e9)


def test_ranges_that_different_devices_serve_are_all_measured() -> None:
    measured = Measured([1e9] * 40, [1] * 41)
    for number in range(40):
        measured.segments_took(f"d{number}", number, [1.0])
    assert measured.measured == frozenset(range(40))
    assert all(measured.segment_s(index) == 1.0 for index in range(40))
    assert measured.costs == pytest.approx([1e9] * 40)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=60))
def test_those_heard_last_stand_for_all_and_nobody_counts_twice(values: list[float]) -> None:
    crowd = Crowd(7)
    assert crowd.middle is None
    for number, value in enumerate(values):
        crowd.tell("often", 100.0)
        crowd.tell(f"d{number}", value)
    assert crowd.middle == median([100.0, *values[-6:]])
    crowd.forget("often")
    assert crowd.middle == median(values[-6:])


# --- in the machine -------------------------------------------------------------------------------

LOPSIDED = tiny_manifest(weights=[MB] * 4, costs=[6e9, 1e9, 1e9, 1e9])
"""By its estimate the first segment is twice as dear as the rest; devices find all alike."""


def plan_of(world: World, items: int | None = None, **options: Any) -> Planned:
    world.ask(RequestPlan("q", "tiny", RunOptions(**options), items))
    world.run_for(0.1)
    planned = world.told[-1]
    assert isinstance(planned, Planned)
    return planned


def rows(planned: Planned) -> list[tuple[int, int]]:
    return [(row.first, row.last) for row in planned.partitions]


def ran(world: World, run: str = "r1", items: int = 30) -> World:
    world.submit(run, items=items)
    world.complete(run, items=items, limit_s=300.0)
    return world


def test_what_was_measured_moves_the_cuts_of_the_next_run() -> None:
    world = World(LOPSIDED).begin("a", "b", compute_s=0.5)
    assert rows(plan_of(world)) == [(0, 0), (1, 3)]
    assert [row.measured for row in plan_of(world).partitions] == [0, 0]
    for run in ("r1", "r2", "r3"):  # the second shows which of the two was the reason
        ran(world, run)
        world.run_for(20.0)
    planned = plan_of(world)
    assert rows(planned) == [(0, 1), (2, 3)]
    assert [row.measured for row in planned.partitions] == [2, 2]


def test_what_was_measured_is_known_after_a_restart() -> None:
    world = ran(World(LOPSIDED).begin("a", "b", compute_s=0.5))
    world.start_orchestrator()
    world.run_for(5.0)
    told = world.machine.state.estimates.of(LOPSIDED, False)
    assert told.measured == frozenset(range(4))
    assert told.segment_s(0) == pytest.approx(0.5)


def test_a_watcher_sees_what_segments_took() -> None:
    world = ran(World(LOPSIDED).begin("a", "b", compute_s=0.5))
    summaries = [each.summary for each in world.instructions(ins.PublishModel)]
    assert summaries[0].segment_s == (None,) * 4
    assert summaries[-1].segment_s == pytest.approx((0.5,) * 4)
    assert len(summaries) < 20


def test_of_a_forgotten_device_and_a_removed_model_nothing_is_kept() -> None:
    world = ran(World(LOPSIDED).begin("a", "b", compute_s=0.5))
    world.tell(ForgetAsked("a"))
    world.tell(ModelRemoved("tiny"))
    world.run_for(1.0)
    digest = LOPSIDED.digest
    assert ins.ForgetTimes(device="a") in world.instructions(ins.ForgetTimes)
    assert ins.ForgetTimes(model=digest) in world.instructions(ins.ForgetTimes)


def slow_one(world: World, compute_s: float) -> World:
    agent = FakeAgent(world, "z", compute_s=compute_s)
    world.agents["z"] = agent
    agent.start()
    world.run_for(1.0)
    return world


def test_a_slow_phone_is_left_out_and_the_plan_says_how_much_slower_it_would_be() -> None:
    even = tiny_manifest(weights=[MB] * 6)
    world = slow_one(World(even).begin("a", "b", compute_s=0.1), compute_s=5.0)
    planned = plan_of(world, items=20)
    assert {row.device for row in planned.partitions} == {"a", "b"}
    assert planned.items == 20
    assert "slower: 20 items take about" in planned.left_out["z"]
    ran(world)
    assert {name for _, name, _ in world.happened("TaskDone")} == {"a", "b"}


def test_a_slow_phone_that_has_everything_cached_is_left_out_too() -> None:
    even = tiny_manifest(weights=[MB] * 6)
    world = slow_one(World(even).begin("a", "b", compute_s=0.1), compute_s=5.0)
    world.agents["z"].cached = {blob.digest for blob in even.blobs}
    world.agents["z"].report()
    world.run_for(1.0)
    ran(world)
    assert {name for _, name, _ in world.happened("TaskDone")} == {"a", "b"}


def test_the_larger_range_goes_to_the_faster_of_two_that_are_both_empty() -> None:
    even = tiny_manifest(weights=[MB] * 8)
    world = slow_one(World(even).begin("a", compute_s=0.1), compute_s=0.3)
    planned = {row.device: row.last - row.first + 1 for row in plan_of(world).partitions}
    assert planned == {"a": 6, "z": 2}


def test_among_equally_fast_ones_the_device_that_has_the_bytes_gets_the_range() -> None:
    even = tiny_manifest(weights=[MB] * 4)
    world = World(even).begin("a", "b", "c", compute_s=0.1)
    world.agents["b"].cached = {b.digest for s in even.segments[:2] for b in s.blobs}
    world.agents["b"].report()
    world.run_for(1.0)
    planned = plan_of(world, partitions=2)
    assert rows(planned) == [(0, 1), (2, 3)]
    assert planned.partitions[0].device == "b"
    assert planned.partitions[0].tier == 2
