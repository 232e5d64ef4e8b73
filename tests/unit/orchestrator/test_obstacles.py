"""What keeps a run from going on is told to its client and to watchers, and when it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from tests.support.fake_fleet import CLIENT, FakeAgent, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages import requests as req
from wire.messages.requests import RunOptions, RunWaits


def world_of(*names: str, **of: Any) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names, **of)


def add(world: World, name: str, **of: Any) -> None:
    world.agents[name] = FakeAgent(world, name, **of)
    world.agents[name].start()


def waits(world: World, run: str = "r1") -> list[RunWaits]:
    return [each for each in world.told if isinstance(each, RunWaits) and each.run == run]


def progress(world: World) -> req.RunProgress:
    told = world.instructions(ins.PublishRun)[-1]
    assert isinstance(told, ins.PublishRun)
    return told.progress


def test_without_any_device_the_client_hears_so_soon_and_once() -> None:
    world = world_of()
    world.submit(items=2)
    world.run_for(2.0)
    assert [each.kind for each in waits(world)] == ["no_device"]
    world.run_for(20.0)
    (told,) = waits(world)
    assert "no device is online" in told.reason
    assert (progress(world).status, progress(world).reason) == ("accepted", told.reason)


def test_devices_that_are_known_and_offline_are_named() -> None:
    world = world_of("phone-1", "phone-2")
    for agent in world.agents.values():
        agent.die()
    world.run_for(1.0)
    world.submit(items=1)
    world.run_for(10.0)
    assert waits(world)[-1].reason.endswith("(phone-1 is offline, phone-2 is offline)")


def test_each_run_waits_for_a_device_as_long_as_it_may() -> None:
    world = world_of("phone-1")
    world.agents["phone-1"].die()
    world.run_for(1.0)
    world.submit(items=1)
    world.run_for(20.0)
    world.ask(req.CancelRun("r1"))
    world.run_for(20.0)
    world.submit("r2", items=1)
    world.run_for(20.0)
    assert ("r2", 0) not in world.outcomes, "the other's waiting is not its own"
    world.run_for(15.0)
    assert world.outcomes["r2", 0] == ["no_device"]
    failed = next(
        each for each in world.told if isinstance(each, req.ItemFailed) and each.run == "r2"
    )
    assert failed.reason.startswith("waited 30 s: no device is")
    assert failed.reason.endswith("(phone-1 is offline)")


def test_a_run_that_came_later_waits_its_own_time_for_a_device() -> None:
    world = world_of()
    world.submit(items=2)
    world.run_for(20.0)
    world.submit("r2", items=2)
    world.complete(items=2, limit_s=15.0)
    assert not world.finished("r2", 1)
    world.run_for(10.0)
    assert not world.finished("r2", 1)
    world.complete("r2", items=2, limit_s=15.0)


def test_of_many_devices_that_are_away_only_a_few_are_named() -> None:
    world = world_of(*"abcdefgh")
    for agent in world.agents.values():
        agent.die()
    world.run_for(1.0)
    world.submit(items=1)
    world.run_for(10.0)
    assert waits(world)[-1].reason.endswith("d is offline, e is offline, and 3 more)")


def test_memory_that_is_missing_is_told_with_who_is_away() -> None:
    world = world_of("big", compute_s=2.0)
    world.submit(items=20)
    world.run_for(3.0)
    world.agents["big"].die()
    add(world, "small", budget=5 * MB)
    world.run_for(10.0)
    told = waits(world)[-1]
    assert told.kind == "fleet_too_small"
    assert "are missing" in told.reason
    assert told.reason.endswith("(big is offline)")


def test_a_run_that_goes_on_again_says_so() -> None:
    world = world_of()
    world.submit(items=2)
    world.run_for(5.0)
    add(world, "a")
    world.complete(items=2)
    world.run_for(2.0)
    assert [each.kind for each in waits(world)] == ["no_device", None]
    assert progress(world).reason is None


def test_ordinary_work_waits_for_nothing() -> None:
    world = world_of("a", "b", "c", fetch_s=5.0, load_s=3.0, compute_s=0.5)
    world.submit(items=60)
    world.submit("r2", items=60)
    world.complete(items=60, limit_s=300.0)
    world.complete("r2", items=60, limit_s=300.0)
    assert waits(world) == waits(world, "r2") == []


@pytest.mark.parametrize(
    ("slow", "kind", "says"),
    [
        ({"fetch_s": 1000.0}, "store_unreachable", "a waits for the model store to send segments"),
        ({"load_s": 1000.0}, "timed_out", "it waits for a to load segments 0 to 2"),
    ],
)
def test_what_was_begun_and_gives_no_news_is_told_within_20_s(
    slow: dict[str, Any], kind: str, says: str
) -> None:
    world = world_of("a", **slow)
    world.submit(items=1)
    world.run_for(20.0)
    (told,) = waits(world)
    assert told.kind == kind
    assert says in told.reason


def test_a_store_with_an_address_of_its_own_is_named() -> None:
    world = world_of("a", fetch_s=1000.0)
    world.machine.state.store_base = "http://10.0.0.7:18831"
    world.submit(items=1)
    world.run_for(20.0)
    assert "at http://10.0.0.7:18831" in waits(world)[0].reason


def test_an_item_of_which_nothing_is_heard_is_told() -> None:
    world = world_of("a")
    world.lose_frame = lambda sender, activation, to: activation.cut == 3
    world.submit(items=1)
    world.run_for(20.0)
    (told,) = waits(world)
    assert "waited for its result to arrive" in told.reason


def test_a_run_that_others_keep_out_is_told_why() -> None:
    world = world_of("a", "b", compute_s=10.0)
    world.submit(items=30, options=RunOptions(partitions=1))
    world.run_for(5.0)
    world.submit("r2", items=1, options=RunOptions(partitions=2))
    world.run_for(30.0)
    (told,) = waits(world, "r2")
    assert "in 1 partitions" in told.reason


def test_a_client_that_asks_again_is_told_again() -> None:
    world = world_of()
    world.submit(items=1)
    world.run_for(5.0)
    world.ask(req.Resume("r1"))
    world.run_for(0.1)
    assert len(waits(world)) == 2
    assert waits(world)[0] == waits(world)[1]


def test_a_run_from_before_a_restart_waits_for_its_model() -> None:
    world = world_of()
    machine = OrchestratorMachine(world.options)
    digest = world.manifest.digest
    run = ev.StoredRun("r1", CLIENT, "tiny", digest, RunOptions(), 1, (0,), (), 1.0)
    machine.handle(ev.Started("o2", 2, (run,), "http://:1"), 0.0)
    machine.handle(ev.Connected("oc2"), 0.0)
    said = machine.handle(ev.Ticked(), 3.0)
    reasons = [
        each.response.reason
        for each in said
        if isinstance(each, ins.Respond) and isinstance(each.response, RunWaits)
    ]
    assert len(reasons) == 1
    assert "model store" in reasons[0]
