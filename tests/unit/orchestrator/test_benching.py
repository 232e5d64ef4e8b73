"""Devices that are there and do nothing with what they were given, one way or another."""

from __future__ import annotations

import pytest

from orchestrator.machine.plans.hedging import ARRIVAL_MOST_S
from orchestrator.machine.records.device import BENCH_S
from tests.support.fake_fleet import FakeAgent, World
from tests.support.few_devices import device
from tests.support.late_tasks import counted, devices, placed, warm
from tests.support.three_phones import IN_THREE, results, serving, three
from tests.support.tiny_manifest import MB

MOMENT_S = 20.0


def disobedient(agent: FakeAgent, patch: pytest.MonkeyPatch) -> FakeAgent:
    """It answers pings and takes no partition."""
    patch.setattr(agent, "obey", lambda assignment: None)
    return agent


def boastful(patch: pytest.MonkeyPatch) -> tuple[World, FakeAgent]:
    """Three phones, and one that says that it could hold all and is a million times faster."""
    world = three(3)
    world.agents["liar"] = FakeAgent(world, "liar", budget=400 * MB, beats=False)
    liar = disobedient(world.agents["liar"], patch)
    liar.start()
    liar.say_telemetry(cost_per_s=1e15, link_nbytes_per_s=1e12)
    world.run_for(1.0)
    return world, liar


def test_a_device_that_takes_no_partition_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    world, liar = boastful(monkeypatch)
    world.submit(items=6)
    world.run_for(1.0)
    assert placed(world, 0) == liar.name
    world.run_for(MOMENT_S, lambda: world.finished(items=6))
    assert results(world, 6)
    assert counted(world, "benched") == 1
    run = world.machine.state.runs["r1"]
    assert "liar does nothing with what it was given" in " ".join(
        text for _, text in run.happenings.latest
    )


def test_it_gets_nothing_for_a_while_that_doubles() -> None:
    world = three(3)
    found, state = device(world), world.machine.state
    for times in (1, 2, 4):
        found.bench(world.now)
        world.run_for(times * BENCH_S - 1.0)
        assert not state.usable(found)
        world.run_for(2.0)
        assert state.usable(found)
        assert found.name in state.devices.usable


def test_whoever_does_a_task_is_believed_again() -> None:
    world = warm()
    found = device(world, serving(world, 0).name)
    found.bench(world.machine.state.now)
    found.bench(world.machine.state.now)
    assert found.benchings == 2
    world.run_for(2 * BENCH_S + 1.0)
    world.submit(run="r2", items=6, options=IN_THREE)
    world.complete("r2", items=6)
    assert found.benchings == 0


def test_where_nobody_else_is_there_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(three(0).manifest).begin("a", budget=400 * MB)
    disobedient(world.agents["a"], monkeypatch)
    world.submit(items=2)
    world.run_for(MOMENT_S)
    assert counted(world, "benched") == 0
    assert placed(world, 0) == "a"


def test_a_device_out_of_the_stores_reach_gives_way_to_one_that_has_the_bytes() -> None:
    world = warm(3)
    late = serving(world, 2)
    everything = set().union(*(agent.cached for agent in world.agents.values()))
    late.die()
    world.run_for(1.0)
    late.cached, late.fetch_s = set(), 1e6
    late.start()
    for agent in world.agents.values():
        if agent is not late:
            agent.cached = set(everything)
            agent.report()
    world.run_for(1.0)
    world.submit(run="r2", items=4, options=IN_THREE)
    world.run_for(2.0)
    assert late.name in devices(world)
    world.run_for(MOMENT_S, lambda: world.finished("r2", 4))
    assert results(world, 4, "r2")
    assert late.name not in devices(world)
    assert counted(world, "benched") == 0


def test_a_device_that_swallows_inputs_is_found_whatever_it_says_of_its_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = warm()
    late = serving(world, 2)
    late.beats = False
    late.say_telemetry(link_nbytes_per_s=1e-300, cost_per_s=1e-300)
    monkeypatch.setattr(late, "frame", lambda *frame: None)
    world.submit(run="r2", items=4, options=IN_THREE)
    world.run_for(ARRIVAL_MOST_S + MOMENT_S, lambda: world.finished("r2", 4))
    assert results(world, 4, "r2")


def test_a_device_that_swallows_inputs_is_helped_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = warm()
    late = serving(world, 2)
    monkeypatch.setattr(late, "frame", lambda *frame: None)
    world.submit(run="r2", items=4, options=IN_THREE)
    world.run_for(MOMENT_S, lambda: world.finished("r2", 4))
    assert results(world, 4, "r2")
    assert placed(world, 2) != late.name
