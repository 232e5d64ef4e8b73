"""A late task is given to a free device as well: the first result wins, and nothing comes twice."""

from __future__ import annotations

from orchestrator.machine.plans import hedging, planning
from orchestrator.machine.records import instructions as ins
from tests.support.fake_fleet import FakeAgent
from tests.support.late_tasks import (
    cancelled,
    counted,
    devices,
    placed,
    results_of,
    spare_of,
    stuck,
    warm,
)
from tests.support.three_phones import IN_THREE, results, serving, three
from wire.ids import TaskId
from wire.messages.requests import RunOptions
from wire.messages.residency import Failure


def test_a_task_that_hangs_is_done_by_another_and_all_behind_it_as_well() -> None:
    world = warm()
    late, began = stuck(world), world.now
    world.complete("r2", items=4)
    assert world.now - began < 5.0
    assert results(world, 4, "r2")
    assert counted(world, "hedges_won") >= 1
    assert placed(world, 2) != late.name
    assert ("r2", 0) in cancelled(world, late.name)  # once it is over


def test_the_first_range_is_hedged_from_our_own_disk_under_the_same_attempt() -> None:
    world = warm()
    stuck(world, first=0)
    world.complete("r2", items=4)
    assert results(world, 4, "r2")
    sent = [each for each in world.instructions(ins.SendInput) if each.activation.run == "r2"]
    first = [each.attempt for each in sent if each.activation.item == 0]
    assert first == [world.machine.state.first_attempt] * 2


def test_the_last_range_goes_to_who_brought_the_result_though_its_word_comes_later() -> None:
    world = warm()
    late = stuck(world, first=4)
    world.complete("r2", items=4)
    assert results(world, 4, "r2")
    assert placed(world, 4) != late.name


def test_a_device_that_is_only_a_little_late_keeps_its_partition_and_the_helper_is_called_off() -> (
    None
):
    world = warm()
    spare = spare_of(world)
    world.agents[spare].load_s = 5.0
    late = stuck(world, seconds=3.0, items=1)
    world.complete("r2", items=1)
    assert counted(world, "hedged") == 1
    assert counted(world, "hedges_won") == 0
    assert placed(world, 2) == late.name
    assert results(world, 1, "r2")
    assert ("r2", 0) in cancelled(world, spare)


def test_with_nobody_free_a_late_task_is_waited_for() -> None:
    world = warm(3)
    stuck(world, seconds=20.0, items=1)
    world.complete("r2", items=1)
    assert counted(world, "hedged") == 0
    assert results(world, 1, "r2")


def test_a_device_that_comes_while_a_task_is_late_helps() -> None:
    world = warm(3)
    late, began = stuck(world), world.now
    world.run_for(5.0)
    world.agents["x"] = FakeAgent(world, "x")
    world.agents["x"].start()
    world.complete("r2", items=4)
    assert world.now - began < 15.0
    assert placed(world, 2) not in (late.name, None)


def test_a_helper_that_cannot_load_the_partition_ends_nothing() -> None:
    world = warm()
    spare = spare_of(world)
    world.agents[spare].fail_load = lambda partition: Failure("load_failed", "no room")
    stuck(world, seconds=10.0, items=1)
    world.complete("r2", items=1)
    assert counted(world, "hedged") >= 1
    assert results(world, 1, "r2")


def test_a_helper_that_fails_the_task_ends_nothing() -> None:
    world = warm()
    spare = spare_of(world)
    world.agents[spare].fail_task = lambda task: Failure("execution_failed", "no")
    stuck(world, seconds=10.0, items=1)
    world.complete("r2", items=1)
    assert 1 <= counted(world, "hedged") <= hedging.HELPS
    assert results(world, 1, "r2")


def test_a_device_that_is_late_and_fails_leaves_the_task_to_its_helper() -> None:
    world = warm()
    spare = spare_of(world)
    world.agents[spare].load_s = 5.0
    late = stuck(world, seconds=3.0, items=1)
    late.fail_task = lambda task: Failure("execution_failed", "no")
    world.complete("r2", items=1)
    assert results(world, 1, "r2")


def test_a_helper_that_dies_leaves_the_task_to_its_device() -> None:
    world = warm()
    spare = spare_of(world)
    stuck(world, seconds=10.0, items=1)
    world.run_for(5.0, lambda: counted(world, "hedged") == 1)
    world.agents[spare].die()
    world.complete("r2", items=1)
    assert results(world, 1, "r2")


def test_a_late_device_that_dies_leaves_the_task_to_its_helper() -> None:
    world = warm()
    late = stuck(world, items=3)
    world.run_for(5.0, lambda: counted(world, "hedged") == 1)
    late.die()
    world.complete("r2", items=3)
    assert results(world, 3, "r2")


def test_what_waits_at_a_barrier_for_its_wave_is_not_late() -> None:
    world = warm(4, compute_s=0.5)
    world.submit(run="r2", items=8, options=RunOptions(partitions=3, barrier=True))
    world.complete("r2", items=8, limit_s=120.0)
    assert counted(world, "hedged") == 0


def test_a_device_without_history_is_given_longer() -> None:
    world = three(4, compute_s=0.05)
    world.submit(items=1, options=IN_THREE)
    world.run_for(5.0, lambda: bool(world.happened("FrameReceived")))
    serving(world, 0).compute_s = 3.0
    world.complete(items=1)
    assert counted(world, "hedged") == 0


def test_what_may_end_devices_is_not_given_to_two() -> None:
    world = warm(5)
    world.submit(run="r2", items=1, options=IN_THREE)
    died: list[str] = []

    def dies(task: TaskId) -> bool:
        died.extend(["once"] if task.first == 2 and not died else [])
        return task.first == 2 and len(died) == 1 and not died.append("more")  # type: ignore[func-returns-value] # None

    for agent in world.agents.values():
        agent.dies_of = dies
    world.run_for(5.0, lambda: bool(died))
    for agent in world.agents.values():
        agent.compute_s = 5.0
    world.complete("r2", items=1, limit_s=120.0)
    assert counted(world, "hedged") == 0
    assert results(world, 1, "r2")


def test_a_phone_that_slows_to_a_tenth_is_left_out_within_the_run() -> None:
    world = warm(4, compute_s=0.1)
    slow = serving(world, 2)
    world.submit(run="r2", items=60, options=IN_THREE)
    world.run_for(5.0, lambda: len(results_of(world, "r2")) >= 5)
    slow.compute_s = 1.0
    world.complete("r2", items=60, limit_s=200.0)
    assert slow.name not in devices(world)
    done_by_it = [
        text
        for _, name, text in world.happened("TaskDone")
        if name == slow.name and "run='r2'" in text
    ]
    assert len(done_by_it) < 30


def test_a_plan_that_works_is_replaced_only_if_that_pays_within_the_items_that_are_left() -> None:
    world = warm(4, compute_s=0.1)
    state = world.machine.state
    (plan,) = state.plans.values()
    assert planning.items_ahead(state, plan, 30) == planning.HORIZON
    world.submit(run="r2", items=12, options=IN_THREE)
    world.run_for(10.0, lambda: len(results_of(world, "r2")) == 5)
    assert planning.items_ahead(state, plan, 30) == 7
    world.submit(run="r3", items=4, options=IN_THREE)
    world.run_for(0.3)
    left = 12 - len(results_of(world, "r2")) + 4
    assert planning.items_ahead(state, plan, 30) == left
