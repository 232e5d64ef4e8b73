"""What devices cannot do: compute, load or hold it. Others are tried, then the reason is told."""

from __future__ import annotations

from tests.support.fake_fleet import FakeAgent, World
from tests.support.three_phones import IN_THREE, results, three
from tests.support.tiny_manifest import MB
from wire.messages.requests import ItemFailed, RunOptions
from wire.messages.residency import Failure


def failure(world: World) -> ItemFailed:
    return next(each for each in world.told if isinstance(each, ItemFailed))


def test_a_compute_failure_is_tried_once_on_another_device() -> None:
    world = three(4)
    world.submit(items=1, options=IN_THREE)
    tried: list[str] = []

    def failing(agent: FakeAgent):  # type: ignore[no-untyped-def] # a closure per agent
        def fail(task: object) -> Failure | None:
            if getattr(task, "first", None) == 2 and not tried:
                tried.append(agent.name)
                return Failure("compute_failed", "odd numbers")
            return None

        return fail

    for agent in world.agents.values():
        agent.fail_task = failing(agent)
    world.complete(items=1)
    assert results(world, 1)
    done = [name for _, name, text in world.happened("TaskDone") if "first=2" in text]
    assert done
    assert done[0] not in tried
    world.run_for(1.0)
    assert not any(
        p.standins for plan in world.machine.state.plans.values() for p in plan.placements
    )


def test_a_second_compute_failure_is_the_items_outcome() -> None:
    world = three(4)
    for agent in world.agents.values():
        agent.fail_task = lambda task: (
            Failure("compute_failed", "index out of range") if task.item == 1 else None
        )
    world.submit(items=3, options=IN_THREE)
    world.complete(items=3)
    assert [world.outcomes["r1", item] for item in range(3)] == [
        ["result"],
        ["compute_failed"],
        ["result"],
    ]


def test_a_partition_that_fails_to_load_goes_to_another_device() -> None:
    world = three(4)
    bad = world.agents["a"]
    bad.fail_load = lambda partition: Failure("load_failed", "no memory mapped")
    world.submit(items=2, options=IN_THREE)
    world.complete(items=2)
    assert results(world, 2)
    assert not any(part.partition for part in world.retained["a"].partitions)


def test_when_every_device_fails_to_load_items_end_with_that_reason() -> None:
    world = three(3)
    for agent in world.agents.values():
        agent.fail_load = lambda partition: (
            Failure("blob_missing", "the store has no such blob") if partition.first == 2 else None
        )
    world.submit(items=2, options=RunOptions(partitions=3))
    world.complete(items=2)
    assert world.outcomes["r1", 0] == ["blob_missing"]
    assert "segments 2 to 3" in failure(world).reason


def test_a_run_after_the_blob_was_put_back_is_served() -> None:
    world = three(3)
    for agent in world.agents.values():
        agent.fail_load = lambda partition: Failure("blob_missing", "the store has no such blob")
    world.submit(items=1)
    world.complete(items=1)
    for agent in world.agents.values():
        agent.fail_load = lambda partition: None
    world.submit(run="r2", items=1)
    world.complete(run="r2", items=1, limit_s=10.0)
    assert world.outcomes["r2", 0] == ["result"]


def test_a_device_that_never_refused_ends_a_refusal_of_all_others() -> None:
    world = three(1)
    world.agents["a"].fail_load = lambda partition: Failure("load_failed", "no")
    world.submit(items=1)
    world.complete(items=1)
    assert world.outcomes["r1", 0] == ["load_failed"]
    assert "the last was a: no" in failure(world).reason
    world.agents["z"] = FakeAgent(world, "z")
    world.agents["z"].start()
    world.run_for(0.5)
    world.submit(run="r2", items=1)
    world.complete(run="r2", items=1, limit_s=10.0)
    assert world.outcomes["r2", 0] == ["result"]


def test_a_device_over_its_budget_gets_smaller_ranges() -> None:
    world = three(2, budget=100 * MB)
    measured = 25 * MB
    for agent in world.agents.values():
        agent.fail_load = lambda part: (
            Failure("over_budget", "measured more")
            if (part.last - part.first + 1) * 10 * MB > measured
            else None
        )
    world.submit(items=2)
    world.complete(items=2)
    assert results(world, 2)


def test_without_any_device_items_fail_with_what_to_do() -> None:
    world = three(1)
    world.submit(items=2)
    world.run_for(5.0, lambda: bool(world.happened("TaskStarted")))
    world.agents["a"].die()
    took_s = world.complete(items=2)
    assert world.outcomes["r1", 1] == ["no_device"]
    assert "crowdpipe agent" in failure(world).reason
    assert 29.0 < took_s < 33.0
