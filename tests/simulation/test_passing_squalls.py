"""Faults that pass soon, with devices to spare: then no item may end with an error.

What a run may fail of is tested with storms; here everything lost is lost for seconds only, so
every single item has to come out as the whole model's result.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.simulation.liar import LIES
from tests.simulation.network import Weather
from tests.simulation.world import World
from tests.support.effort import limit, schedules
from wire.messages.requests import ATTACHED_COUNT

RUNS_LIMIT = 3
END_LIMIT_S = 600.0
WHICH = st.integers(0, 3)
PART_NBYTES = st.sampled_from([None, 150])
SOON = st.floats(0.0, 5.0, width=16)
SHORTLY = st.floats(0.0, 1.0, width=16)


class Squall(RuleBasedStateMachine):
    @initialize(
        segments=st.integers(2, 6),
        hold_nbytes=st.sampled_from([50_000, 1 << 20]),
        part_nbytes=PART_NBYTES,
        seed=st.integers(0, 1000),
    )
    def begin(self, segments: int, hold_nbytes: int, part_nbytes: int | None, seed: int) -> None:
        self.world = World(
            40,
            40,
            40,
            40,
            segments=segments,
            seed=seed,
            hold_nbytes=hold_nbytes,
            part_nbytes=part_nbytes,
        )

    @precondition(lambda self: len(self.world.client.runs) < RUNS_LIMIT)
    @rule(
        items=st.integers(1, 12),
        barrier=st.booleans(),
        exact=st.booleans(),
        attached=st.sampled_from([0, 1, ATTACHED_COUNT]),
        then_s=SHORTLY,
    )
    def a_run_is_submitted(
        self, items: int, barrier: bool, exact: bool, attached: int, then_s: float
    ) -> None:
        name = f"run{len(self.world.client.runs)}"
        self.world.submit(name, items, attached, barrier=barrier, exact=exact)
        self.world.clock.run_for(then_s)

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.run_for(seconds)

    @rule(
        loss=st.sampled_from([0.0, 0.02]),
        doubling=st.sampled_from([0.0, 0.1]),
        delay_s=st.sampled_from([0.0, 0.05, 0.5]),
        seed=st.integers(0, 1000),
        then_s=SHORTLY,
    )
    def the_weather_changes(
        self, loss: float, doubling: float, delay_s: float, seed: int, then_s: float
    ) -> None:
        self.world.broker.weather = Weather(loss, doubling, delay_s, Random(seed))
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, back_s=SOON, then_s=SHORTLY)
    def an_agent_starts_anew(self, which: int, back_s: float, then_s: float) -> None:
        agent = self.world.agents[which]
        if agent.running:
            agent.crash()
            self.world.clock.later(back_s, agent.start)
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, away_s=SOON, silently=st.booleans(), then_s=SHORTLY)
    def a_link_fails(self, which: int, away_s: float, silently: bool, then_s: float) -> None:
        self.world.agents[which].disconnect(away_s, silently)
        self.world.clock.run_for(then_s)

    @rule(back_s=SOON, then_s=SHORTLY)
    def the_orchestrator_starts_anew(self, back_s: float, then_s: float) -> None:
        if self.world.orchestrator.running:
            self.world.orchestrator.crash()
            self.world.clock.later(back_s, self.world.orchestrator.start)
        self.world.clock.run_for(then_s)

    @rule(away_s=SOON, then_s=SHORTLY)
    def the_orchestrators_link_fails(self, away_s: float, then_s: float) -> None:
        self.world.orchestrator.lose_broker(away_s)
        self.world.clock.run_for(then_s)

    @rule(keep_retained=st.booleans(), then_s=SHORTLY)
    def the_broker_breaks(self, keep_retained: bool, then_s: float) -> None:
        self.world.break_broker(keep_retained)
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, then_s=SHORTLY)
    def a_blob_rots(self, which: int, then_s: float) -> None:
        agent = self.world.agents[which]
        if "rotten" not in agent.faults:
            agent.faults.append("rotten")
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, then_s=SHORTLY)
    def a_device_is_forgotten(self, which: int, then_s: float) -> None:
        self.world.forget(self.world.agents[which].name)
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, cut=st.integers(0, 5), count=st.integers(1, 12), then_s=SHORTLY)
    def frames_come_that_nobody_expects(
        self, which: int, cut: int, count: int, then_s: float
    ) -> None:
        self.world.stray(which, min(cut, len(self.world.manifest.segments) - 1), count)
        self.world.clock.run_for(then_s)

    @precondition(lambda self: self.world.client.runs)
    @rule(
        what=st.sampled_from(LIES),
        run=st.integers(0, RUNS_LIMIT - 1),
        item=st.integers(0, 11),
        cut=st.integers(0, 6),
        which=WHICH,
        times=st.sampled_from([1, 10]),
        then_s=SHORTLY,
    )
    def an_idle_device_lies(
        self, what: str, run: int, item: int, cut: int, which: int, times: int, then_s: float
    ) -> None:
        name = f"run{run % len(self.world.client.runs)}"
        for _ in range(times):
            self.world.lie(what, name, item, cut, which)
        self.world.clock.run_for(then_s)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.clock.run_for(6.0)
        self.world.calm()
        self.world.succeed(*self.world.client.runs.values(), limit_s=END_LIMIT_S)
        self.world.rest()


TestSquall = limit(900)(Squall.TestCase)  # shrinking takes long
TestSquall.settings = schedules(40, steps=25)


@pytest.mark.parametrize("seed", [2, 4])
def test_inputs_that_overtake_their_submit_or_come_twice_cost_nothing(seed: int) -> None:
    world = World(25, 25, 25)
    world.broker.weather = Weather(doubling=0.2, delay_s=0.3, random=Random(seed))
    runs = [world.submit(f"r{at}", items=3, attached=2) for at in range(12)]
    world.succeed(*runs)
    assert world.orchestrator.machine.state.counts["stray_input"], "none overtook its submit"
    world.calm()
    world.rest()
