"""People hear in one sentence that a device is lost and where its partitions went: once."""

from __future__ import annotations

from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.happenings import KEPT_COUNT
from tests.support.fake_fleet import CLIENT, World
from tests.support.three_phones import IN_THREE, serving, three
from wire.messages import requests as req
from wire.messages.progress import RunProgress


def news(world: World, run: str = "r1") -> list[str]:
    return [each.text for each in world.told if isinstance(each, req.RunNews) and each.run == run]


def progress(world: World) -> RunProgress:
    return world.instructions(ins.PublishRun)[-1].progress


def busy(count: int = 4) -> World:
    """A run of 20 items is under way on three phones, of which there are so many."""
    world = three(count, compute_s=0.3)
    world.submit(items=20, options=IN_THREE)
    world.run_for(6.0)
    assert world.outcomes
    return world


def test_a_partition_that_moves_is_told_of_with_who_lost_it_and_who_has_it() -> None:
    world = busy()
    lost = serving(world, 2)
    lost.die()
    world.run_for(3.0)
    now = serving(world, 2)
    assert now is not lost
    assert news(world) == [f"{lost.name} lost, partition 2 moved to {now.name}"]
    (happened,) = progress(world).happened
    assert happened.text == news(world)[0]
    assert 5.0 < happened.at_s < 9.0


def test_a_partition_that_nobody_can_take_is_told_of_and_where_it_went_later() -> None:
    world = three(3, compute_s=0.3)
    world.submit(items=20, options=IN_THREE)
    world.run_for(6.0)
    for name in "abc":
        world.agents[name].die()
    world.run_for(10.0)
    told = news(world)
    assert len(told) == 3
    assert told[-1].endswith(" lost, partitions 1, 2 and 3 without a device")
    for name in "abc":
        world.agents[name].start()
    world.complete(items=20, limit_s=120.0)
    assert all(world.outcomes["r1", item] == ["result"] for item in range(20))
    assert len(news(world)) == len(set(news(world))), "each once"
    assert "without" not in news(world)[-1]


def test_when_the_model_is_cut_anew_that_is_told_with_why() -> None:
    world = busy(3)
    lost = serving(world, 2)
    lost.die()
    world.run_for(10.0)
    (told,) = news(world)
    assert told.startswith(f"{lost.name} lost, ")
    assert lost.name not in told.split(", ", 1)[1]


def test_a_run_that_came_later_hears_nothing_of_it_and_neither_does_one_that_is_over() -> None:
    world = busy()
    world.submit("late", items=2, options=IN_THREE)
    world.run_for(0.008, lambda: "late" in world.machine.state.runs)
    serving(world, 2).die()
    world.complete(items=20)
    world.complete("late", items=2)
    assert len(news(world)) == 1
    assert news(world, "late") == []
    before = len(world.told)
    serving(world, 0).die()
    world.run_for(5.0)
    assert not [each for each in world.told[before:] if isinstance(each, req.RunNews)]
    assert not any(plan.vacated for plan in world.machine.state.plans.values())


def test_only_the_last_few_are_kept_however_many_there_were() -> None:
    world = busy()
    run = world.machine.state.runs["r1"]
    for index in range(3 * KEPT_COUNT):
        run.happen(f"happening {index}", world.now)
    world.run_for(1.0)
    assert [each.text for each in progress(world).happened] == [
        f"happening {index}" for index in range(2 * KEPT_COUNT, 3 * KEPT_COUNT)
    ]
    stamps = [each.stamp for each in world.told if isinstance(each, req.RunNews)]
    assert stamps == sorted(set(stamps))


def test_who_asks_what_there_is_hears_it_again_under_the_same_stamp() -> None:
    world = busy()
    serving(world, 2).die()
    world.run_for(3.0)
    world.ask(req.Resume("r1"), CLIENT)
    world.run_for(1.0)
    first, again = (each for each in world.told if isinstance(each, req.RunNews))
    assert first == again
