"""Both machines together while hypothesis lets things fail; then calm, and every run must end."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from edge_agent.machine.records import events as happened
from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.flooder import Flooder
from tests.simulation.liar import LIES
from tests.simulation.network import Weather
from tests.simulation.virtual_agent import COMPUTE_S, VirtualAgent
from tests.simulation.virtual_client import RESULT, ClientRun
from tests.simulation.world import World
from tests.support.effort import limit, schedules
from wire.ids import TaskId
from wire.messages.requests import ATTACHED_COUNT

OPTIONS = OrchestratorOptions(item_limit_s=120.0, no_device_s=30.0)
END_LIMIT_S = 1200.0
REST_LIMIT_S = 300.0
RUNS_LIMIT = 3
MANY_AGENTS = st.lists(st.sampled_from([14, 25, 40]), min_size=1, max_size=5)
LONG = st.sampled_from([1.0, 5.0, 40.0])
FAULTS = ["failing", "fatal", "rotten", "refused", "stuck", "late"]
SHORTLY = st.floats(0.0, 1.5, width=16)
WHICH = st.integers(0, 4)
ALONG = st.sampled_from([0, 1, ATTACHED_COUNT])


class Storm(RuleBasedStateMachine):
    """Each rule lets one thing fail, or some time pass."""

    VALIDATE_EVERY = 1  # events

    @initialize(
        memory_mb=MANY_AGENTS,
        segments=st.integers(1, 6),
        disk_mb=st.sampled_from([45, 200]),
        hold_nbytes=st.sampled_from([50_000, 1 << 20]),
        part_nbytes=st.sampled_from([None, 150]),
        seed=st.integers(0, 1000),
        items=st.integers(1, 12),
        attached=ALONG,
        together_share=st.sampled_from([0.0, 0.3]),
    )
    def begin(
        self,
        memory_mb: list[int],
        segments: int,
        disk_mb: int,
        hold_nbytes: int,
        part_nbytes: int | None,
        seed: int,
        items: int,
        attached: int,
        together_share: float = 0.0,
    ) -> None:
        self.world = World(
            *memory_mb,
            segments=segments,
            options=OPTIONS,
            seed=seed,
            disk_mb=disk_mb,
            hold_nbytes=hold_nbytes,
            part_nbytes=part_nbytes,
            validate_every=self.VALIDATE_EVERY,
        )
        for agent in self.world.agents:
            agent.together_share = together_share
        self.flooder: Flooder | None = None
        self.world.submit("run0", items, attached)

    @precondition(lambda self: len(self.world.client.runs) < RUNS_LIMIT)
    @rule(
        items=st.integers(1, 12),
        barrier=st.booleans(),
        exact=st.booleans(),
        partitions=st.sampled_from([None, None, 1, 2, 3]),
        attached=ALONG,
        then_s=SHORTLY,
    )
    def a_run_is_submitted(
        self,
        items: int,
        barrier: bool,
        exact: bool,
        partitions: int | None,
        attached: int,
        then_s: float,
    ) -> None:
        name = f"run{len(self.world.client.runs)}"
        asked = min(partitions, len(self.world.manifest.segments)) if partitions else None
        self.world.submit(name, items, attached, barrier=barrier, exact=exact, partitions=asked)
        self.world.clock.run_for(then_s)

    @precondition(lambda self: len(self.world.client.runs) == RUNS_LIMIT)
    @rule()
    def a_run_is_cancelled(self) -> None:
        self.world.client.cancel("run1")

    @rule(seconds=LONG)
    def time_passes(self, seconds: float) -> None:
        self.world.clock.run_for(seconds)

    @rule(seconds=SHORTLY)
    def some_time_passes(self, seconds: float) -> None:
        self.world.clock.run_for(seconds)

    @rule(
        loss=st.sampled_from([0.0, 0.03, 0.3]),
        doubling=st.sampled_from([0.0, 0.1]),
        delay_s=st.sampled_from([0.0, 0.05, 2.0]),
        seed=st.integers(0, 1000),
    )
    def the_weather_changes(self, loss: float, doubling: float, delay_s: float, seed: int) -> None:
        self.world.broker.weather = Weather(loss, doubling, delay_s, Random(seed))
        self._then()

    def _then(self) -> None:
        """Faults come in the midst of things."""
        self.world.clock.run_for(self.world.random.random() ** 3)

    def _agent(self, which: int) -> VirtualAgent:
        return self.world.agents[which % len(self.world.agents)]

    @rule(which=WHICH)
    def an_agent_crashes_or_comes_back(self, which: int) -> None:
        agent = self._agent(which)
        if agent.running:
            agent.crash()
        else:
            agent.start()
        self._then()

    @rule(which=WHICH)
    def an_agent_is_stopped(self, which: int) -> None:
        self._agent(which).feed(happened.StopAsked("a person"))
        self._then()

    @rule(which=WHICH, away_s=st.sampled_from([0.3, 5.0, 60.0]), silently=st.booleans())
    def a_link_fails(self, which: int, away_s: float, silently: bool) -> None:
        self._agent(which).disconnect(away_s, silently)
        self._then()

    @rule(which=WHICH, fault=st.sampled_from(FAULTS))
    def an_agent_has_a_fault(self, which: int, fault: str) -> None:
        self._agent(which).faults.append(fault)
        self._then()

    @rule(which=WHICH, seconds=st.sampled_from([1.0, 8.0, 60.0]))
    def an_agent_stands_still(self, which: int, seconds: float) -> None:
        self._agent(which).still.begin(seconds)
        self._then()

    @rule(which=WHICH, times=st.sampled_from([1, 10, 400]))
    def an_agent_is_as_slow_as_this(self, which: int, times: int) -> None:
        self._agent(which).compute_s = COMPUTE_S * times
        self._then()

    @rule(count=st.sampled_from([30, 500]))
    def another_users_client_floods(self, count: int) -> None:
        self.flooder = self.flooder or Flooder(self.world)
        self.flooder.flood(count, within_s=1.0)
        self._then()

    @rule(which=WHICH, hours=st.sampled_from([-5.0, 0.01, 5.0]))
    def a_devices_clock_jumps(self, which: int, hours: float) -> None:
        self._agent(which).jump_clock(3600.0 * hours)
        self._then()

    @rule(run=st.integers(0, RUNS_LIMIT - 1), item=st.integers(0, 11))
    def an_item_ends_who_runs_it_from_now_on(self, run: int, item: int) -> None:
        at = (f"run{run}", item)
        self.world.deadly = lambda _, work: isinstance(work, TaskId) and (work.run, work.item) == at
        self._then()

    @rule()
    def the_orchestrator_crashes_or_comes_back(self) -> None:
        if self.world.orchestrator.running:
            self.world.orchestrator.crash()
        else:
            self.world.orchestrator.start()
        self._then()

    @rule(away_s=st.sampled_from([0.5, 20.0]))
    def the_orchestrators_link_fails(self, away_s: float) -> None:
        self.world.orchestrator.lose_broker(away_s)
        self._then()

    @rule(keep_retained=st.booleans())
    def the_broker_breaks(self, keep_retained: bool) -> None:
        self.world.break_broker(keep_retained)
        self._then()

    @rule()
    def the_store_goes_or_comes(self) -> None:
        self.world.store_up = not self.world.store_up
        self._then()

    @rule()
    def the_disk_fills_or_is_emptied(self) -> None:
        self.world.disk_full = not self.world.disk_full
        self._then()

    @rule()
    def the_model_goes_or_comes(self) -> None:
        if self.world.model_there:
            self.world.remove_model()
        else:
            self.world.bring_model()
        self._then()

    @rule(which=WHICH)
    def a_device_is_forgotten(self, which: int) -> None:
        self.world.forget(self._agent(which).name)
        self._then()

    @rule(which=WHICH, cut=st.integers(0, 5), count=st.integers(1, 12))
    def frames_come_that_nobody_expects(self, which: int, cut: int, count: int) -> None:
        last = len(self.world.manifest.segments) - 1
        self.world.stray(which % len(self.world.agents), min(cut, last), count)
        self._then()

    @rule(
        what=st.sampled_from(LIES),
        run=st.integers(0, RUNS_LIMIT - 1),
        item=st.integers(0, 11),
        cut=st.integers(0, 6),
        which=WHICH,
        times=st.sampled_from([1, 10]),
    )
    def an_idle_device_lies(
        self, what: str, run: int, item: int, cut: int, which: int, times: int
    ) -> None:
        name = f"run{run % len(self.world.client.runs)}"
        for _ in range(times):
            self.world.lie(what, name, item, cut, which % len(self.world.agents))
        self._then()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.calm()
        self.world.complete(*self.world.client.runs.values(), limit_s=END_LIMIT_S)
        for run in self.world.client.runs.values():
            for item, what in run.outcomes.items():
                assert what == RESULT or run.reasons[item], "an error without a reason"
            assert run.rejected is None or self._may_be_rejected(run)
        self.world.rest(REST_LIMIT_S)

    def _may_be_rejected(self, run: ClientRun) -> bool:
        assert run.rejected is not None
        kind = run.rejected.partition(":")[0]
        gone = run.name in self.world.removed
        return run.cancelling or kind in ("fleet_too_small", "disk_full") or gone


TestStorm = limit(900)(Storm.TestCase)  # shrinking takes long
TestStorm.settings = schedules(40, steps=25)


def test_a_partition_whose_load_hangs_may_be_listed_again() -> None:
    """Its agent drains meanwhile, and loads nothing more."""
    storm = Storm()
    storm.begin(
        disk_mb=200,
        segments=5,
        memory_mb=[25, 14],
        part_nbytes=None,
        hold_nbytes=50_000,
        attached=1,
        seed=580,
        items=5,
    )
    storm.an_agent_has_a_fault(fault="rotten", which=4)
    storm.an_agent_is_stopped(which=3)
    storm.a_devices_clock_jumps(hours=5.0, which=4)
    storm.an_agent_has_a_fault(fault="stuck", which=2)
    storm.a_devices_clock_jumps(hours=0.01, which=2)
    storm.teardown()
