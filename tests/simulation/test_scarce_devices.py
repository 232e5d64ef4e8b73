"""Few devices that come and go for long: `no_device` is said when it is true, and only then.

The world checks each such answer one by one: no fleet that could have served the run was there
for as long as a device is waited for, and the item itself has waited for so long.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.world import World
from tests.support.effort import limit, schedules

OPTIONS = OrchestratorOptions(item_limit_s=300.0, no_device_s=30.0)
END_LIMIT_S = 900.0
RUNS_LIMIT = 4
WHICH = st.integers(0, 2)
SECONDS = st.sampled_from([0.5, 3.0, 10.0, 20.0, 33.0])


class Scarcity(RuleBasedStateMachine):
    @initialize(
        memory_mb=st.lists(st.sampled_from([25, 70]), min_size=1, max_size=3),
        there=st.lists(st.booleans(), min_size=3, max_size=3),
        seed=st.integers(0, 1000),
    )
    def begin(self, memory_mb: list[int], there: list[bool], seed: int) -> None:
        self.world = World(*memory_mb, segments=4, options=OPTIONS, seed=seed)
        for agent, stays in zip(self.world.agents, there, strict=False):
            if not stays:
                agent.crash()

    @precondition(lambda self: len(self.world.client.runs) < RUNS_LIMIT)
    @rule(items=st.integers(1, 4), exact=st.booleans(), then_s=SECONDS)
    def a_run_is_submitted(self, items: int, exact: bool, then_s: float) -> None:
        self.world.submit(f"run{len(self.world.client.runs)}", items, exact=exact)
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, then_s=SECONDS)
    def an_agent_crashes_or_comes_back(self, which: int, then_s: float) -> None:
        agent = self.world.agents[which % len(self.world.agents)]
        if agent.running:
            agent.crash()
        else:
            agent.start()
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, away_s=SECONDS, silently=st.booleans(), then_s=SECONDS)
    def a_link_fails(self, which: int, away_s: float, silently: bool, then_s: float) -> None:
        self.world.agents[which % len(self.world.agents)].disconnect(away_s, silently)
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, fault=st.sampled_from(["fatal", "refused", "stuck"]), then_s=SECONDS)
    def an_agent_has_a_fault(self, which: int, fault: str, then_s: float) -> None:
        self.world.agents[which % len(self.world.agents)].faults.append(fault)
        self.world.clock.run_for(then_s)

    @rule(back_s=SECONDS, then_s=SECONDS)
    def the_orchestrator_starts_anew(self, back_s: float, then_s: float) -> None:
        if self.world.orchestrator.running:
            self.world.orchestrator.crash()
            self.world.clock.later(back_s, self.world.orchestrator.start)
        self.world.clock.run_for(then_s)

    @rule(away_s=SECONDS, then_s=SECONDS)
    def the_orchestrators_link_fails(self, away_s: float, then_s: float) -> None:
        self.world.orchestrator.lose_broker(away_s)
        self.world.clock.run_for(then_s)

    @rule(keep_retained=st.booleans(), then_s=SECONDS)
    def the_broker_breaks(self, keep_retained: bool, then_s: float) -> None:
        self.world.break_broker(keep_retained)
        self.world.clock.run_for(then_s)

    @rule(which=WHICH, then_s=SECONDS)
    def a_device_is_forgotten(self, which: int, then_s: float) -> None:
        self.world.forget(self.world.agents[which % len(self.world.agents)].name)
        self.world.clock.run_for(then_s)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.clock.run_for(40.0)
        self.world.calm()
        self.world.complete(*self.world.client.runs.values(), limit_s=END_LIMIT_S)
        self.world.rest()


TestScarcity = limit(900)(Scarcity.TestCase)  # shrinking takes long
TestScarcity.settings = schedules(40, steps=20)
