"""Runs that go on alone, and are collected by other sessions of their user: each item once."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.network import Weather
from tests.simulation.virtual_client import RESULT
from tests.simulation.virtual_collector import VirtualCollector
from tests.simulation.world import World
from tests.support.effort import limit, schedules

OPTIONS = OrchestratorOptions(client_lease_s=15.0, client_gone_s=60.0, credit=2)
RUNS_LIMIT, COLLECTORS_LIMIT = 2, 4
END_LIMIT_S = 600.0
SHORTLY = st.floats(0.0, 1.5, width=16)


def collector(world: World, name: str, kept: dict[tuple[str, int], str]) -> VirtualCollector:
    return VirtualCollector(world, f"clients/ann/{name}", kept)


def test_a_run_is_collected_that_went_on_without_its_client() -> None:
    world = World(25, 25, 25, options=OPTIONS)
    run = world.submit(items=20, detached=True)
    world.complete(run)
    world.client.vanish()
    world.clock.run_for(200.0)
    assert not run.outcomes
    collected = collector(world, "s2", {}).collect(run)
    world.succeed(collected)
    assert len(collected.outcomes) == 20
    world.clock.run_for(10.0)
    assert not world.orchestrator.journal.runs
    world.rest()


@pytest.mark.parametrize("after_s", [0.1, 1.0])
def test_who_stops_leaves_all_of_it_for_the_next(after_s: float) -> None:
    world, kept = World(25, 25, 25, options=OPTIONS), dict[tuple[str, int], str]()
    run = world.submit(items=40, detached=True)
    world.complete(run)
    first, second = collector(world, "s2", kept), collector(world, "s3", kept)
    first.collect(run)
    world.clock.run_for(after_s)
    waits = second.collect(run)
    world.clock.run_for(after_s)
    first.stop(run.name)
    world.succeed(waits)
    assert len(waits.outcomes) == 40


def test_who_is_cut_off_is_replaced_and_told_so() -> None:
    world, kept = World(25, 25, 25, options=OPTIONS), dict[tuple[str, int], str]()
    run = world.submit(items=40, detached=True)
    world.complete(run)
    first, second = collector(world, "s2", kept), collector(world, "s3", kept)
    lost = first.collect(run)
    world.clock.run_for(0.3)
    first.vanish()
    found = second.collect(run)
    world.succeed(found, limit_s=200.0)
    first.come_back()
    world.complete(lost)
    assert lost.rejected is not None
    assert len(found.outcomes) == 40


class Handing(RuleBasedStateMachine):
    """Whoever collects is cut off, stops or stays, while everything else fails now and then."""

    @initialize(seed=st.integers(0, 1000), items=st.integers(1, 12))
    def begin(self, seed: int, items: int) -> None:
        self.world = World(40, 40, 40, options=OPTIONS, seed=seed)
        self.kept: dict[tuple[str, int], str] = {}
        self.collectors: list[VirtualCollector] = []
        self.world.submit("run0", items, detached=True)

    @precondition(lambda self: len(self.world.client.runs) < RUNS_LIMIT)
    @rule(items=st.integers(1, 12), barrier=st.booleans(), then_s=SHORTLY)
    def a_run_is_submitted(self, items: int, barrier: bool, then_s: float) -> None:
        name = f"run{len(self.world.client.runs)}"
        self.world.submit(name, items, barrier=barrier, detached=True)
        self.world.clock.run_for(then_s)

    @precondition(lambda self: len(self.collectors) < COLLECTORS_LIMIT)
    @rule(which=st.integers(0, 1), then_s=SHORTLY)
    def somebody_collects(self, which: int, then_s: float) -> None:
        runs = list(self.world.client.runs.values())
        run = runs[which % len(runs)]
        if run.over:
            self.collectors.append(collector(self.world, f"c{len(self.collectors)}", self.kept))
            self.collectors[-1].collect(run)
        self.world.clock.run_for(then_s)

    @precondition(lambda self: self.collectors)
    @rule(which=st.integers(0, 3), how=st.sampled_from(["stops", "goes", "comes"]), then_s=SHORTLY)
    def one_of_them(self, which: int, how: str, then_s: float) -> None:
        one = self.collectors[which % len(self.collectors)]
        if how == "goes" and not one.gone and not one.owes:
            one.vanish()
        elif how == "comes" and one.gone:
            one.come_back()
        elif how == "stops" and not one.gone:
            for name in [name for name, run in one.runs.items() if not run.over]:
                one.stop(name)
        self.world.clock.run_for(then_s)

    @rule(seconds=st.sampled_from([1.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.run_for(seconds)

    @rule(loss=st.sampled_from([0.0, 0.05]), delay_s=st.sampled_from([0.0, 0.5]))
    def the_weather_changes(self, loss: float, delay_s: float) -> None:
        self.world.broker.weather = Weather(loss, 0.0, delay_s, Random(1))

    @rule(back_s=st.floats(0.0, 5.0, width=16))
    def the_orchestrator_starts_anew(self, back_s: float) -> None:
        if self.world.orchestrator.running:
            self.world.orchestrator.crash()
            self.world.clock.later(back_s, self.world.orchestrator.start)
        self.world.clock.run_for(0.5)

    @rule(keep_retained=st.booleans())
    def the_broker_breaks(self, keep_retained: bool) -> None:
        self.world.break_broker(keep_retained)
        self.world.clock.run_for(0.5)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.clock.run_for(6.0)
        self.world.calm()
        runs = list(self.world.client.runs.values())
        self.world.complete(*runs, limit_s=END_LIMIT_S)
        for one in self.collectors:
            if not one.gone and not one.owes:
                one.vanish()
        last = collector(self.world, "last", self.kept)
        found = [last.collect(run) for run in runs]
        self.world.complete(*found, limit_s=END_LIMIT_S)
        self.world.clock.run_for(10.0)
        for run in runs:
            items = {item for name, item in self.kept if name == run.name}
            assert items == set(range(run.items)), f"{run.name}: {items} of {run.items} are kept"
        outcomes = [what for run in found for what in run.outcomes.values()]
        assert set(outcomes) <= {RESULT}
        self.world.rest()


TestHanding = limit(600)(Handing.TestCase)  # shrinking takes long
TestHanding.settings = schedules(6, steps=20)
