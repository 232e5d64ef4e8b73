"""Whatever the fleet does and in whatever order: no exception, and one outcome per item.

The world here loses, repeats and delays messages, ends and starts agents and the orchestrator,
in an order that hypothesis chooses. Once the faults stop, every run ends.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from orchestrator.machine.records import events as ev
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.effort import schedules
from tests.support.fake_fleet import CLIENT, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.frame_head import FrameHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages import events as dev
from wire.messages.requests import AcknowledgeResults, CancelRun, Resume, RunOptions
from wire.messages.residency import Failure, Residency

NAMES = ("a", "b", "c", "d")
names = st.sampled_from(NAMES)
runs = st.sampled_from(["r1", "r2", "r3"])
seconds = st.sampled_from([0.001, 0.02, 0.1, 0.5, 2.0, 20.0])


class Chaos(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}
        self.losing: set[str] = set()
        self.ended: set[tuple[str, int]] = set()

    @initialize(
        count=st.integers(1, 4),
        segments=st.integers(1, 6),
        budget=st.integers(25, 60),
        barrier=st.booleans(),
        brief=st.booleans(),
        gather_s=st.sampled_from([None, 0.0, 0.01, 0.05]),
    )
    def begin(
        self,
        count: int,
        segments: int,
        budget: int,
        barrier: bool,
        brief: bool,
        gather_s: float | None,
    ) -> None:
        manifest = tiny_manifest(weights=[10 * MB] * segments)
        options = OrchestratorOptions(no_device_s=30.0, client_lease_s=6.0, client_gone_s=30.0)
        self.world = World(manifest, options).begin(*NAMES[:count], budget=budget * MB, brief=brief)
        self.world.gather_s = gather_s
        self.world.lose_frame = lambda sender, at, to: to in self.losing
        self.submit("r1", 4, barrier, False, None, 1)

    @rule(
        run=runs,
        items=st.integers(1, 6),
        barrier=st.booleans(),
        exact=st.booleans(),
        partitions=st.sampled_from([None, None, 1, 2, 3]),
        attached=st.integers(0, 6),
    )
    def submit(
        self,
        run: str,
        items: int,
        barrier: bool,
        exact: bool,
        partitions: int | None,
        attached: int,
    ) -> None:
        if run in self.asked or (partitions or 1) > len(self.world.manifest.segments):
            return
        self.asked[run] = items
        options = RunOptions(exact=exact, barrier=barrier, partitions=partitions)
        self.world.submit(run, items, options, min(attached, items))

    @rule(after_s=seconds)
    def time_passes(self, after_s: float) -> None:
        self.world.run_for(after_s)

    @rule(name=names)
    def an_agent_dies(self, name: str) -> None:
        agent = self.world.agents.get(name)
        if agent is not None and agent.online:
            agent.die()

    @rule(name=names)
    def an_agent_starts(self, name: str) -> None:
        agent = self.world.agents.get(name)
        if agent is not None:
            agent.start()

    @rule(name=names)
    def an_agent_reconnects(self, name: str) -> None:
        agent = self.world.agents.get(name)
        if agent is not None and agent.online:
            agent.connect()

    @rule(name=names)
    def an_agent_falls_silent(self, name: str) -> None:
        agent = self.world.agents.get(name)
        if agent is not None:
            agent.mute = True

    @rule(name=names)
    def an_agent_speaks_again(self, name: str) -> None:
        agent = self.world.agents.get(name)
        if agent is not None:
            agent.mute = False
            agent.flush_events()
            agent.say_residency()

    @rule(name=names)
    def an_agent_drains(self, name: str) -> None:
        agent = self.world.agents.get(name)
        if agent is not None and agent.online:
            agent.say_state("draining")

    @rule(name=names)
    def frames_to_it_are_lost(self, name: str) -> None:
        self.losing.add(name)

    @rule(name=names)
    def frames_come_again(self, name: str) -> None:
        self.losing.discard(name)

    @rule(
        name=names,
        kind=st.sampled_from(["load_failed", "over_budget", "blob_missing"]),
        first=st.integers(0, 3),
    )
    def loads_fail(self, name: str, kind: str, first: int) -> None:
        agent = self.world.agents.get(name)
        if agent is not None:
            agent.fail_load = lambda part: Failure(kind, "no") if part.first == first else None

    @rule(name=names, item=st.integers(0, 3))
    def tasks_fail(self, name: str, item: int) -> None:
        agent = self.world.agents.get(name)
        if agent is not None:
            agent.fail_task = lambda task: (
                Failure("compute_failed", "no") if task.item == item else None
            )

    @rule(name=names, cut=st.integers(0, 3))
    def frames_are_dropped(self, name: str, cut: int) -> None:
        agent = self.world.agents.get(name)
        if agent is not None:
            agent.drop_frame = lambda at: at.cut == cut

    @rule(name=names)
    def everything_works_there(self, name: str) -> None:
        agent = self.world.agents.get(name)
        if agent is not None:
            agent.fail_load = lambda part: None
            agent.fail_task = lambda task: None
            agent.drop_frame = lambda at: False

    @rule(run=runs)
    def the_client_cancels(self, run: str) -> None:
        self.world.ask(CancelRun(run))

    @rule(run=runs)
    def the_client_resumes(self, run: str) -> None:
        self.world.ask(Resume(run))

    @rule(there=st.booleans())
    def the_client_is_there(self, there: bool) -> None:
        self.world.client_there = there

    @rule(run=runs, items=st.sets(st.integers(0, 5)))
    def the_client_acknowledges(self, run: str, items: set[int]) -> None:
        had = [item for item in sorted(items) if (run, item) in self.world.outcomes]
        self.world.ask(AcknowledgeResults(run, tuple(had)))

    @rule()
    def we_lose_the_broker(self) -> None:
        self.world.tell(ev.Disconnected("gone"), 0.0)
        self.world.tell(ev.Connected("again"), 3.0)

    @precondition(lambda self: self.world.now < 400)
    @rule()
    def we_start_anew(self) -> None:
        self.world.start_orchestrator()
        for agent in self.world.agents.values():
            if agent.online:
                agent.report()

    @rule(
        run=runs,
        item=st.integers(-1, 6),
        cut=st.integers(0, 7),
        name=names,
        what=st.sampled_from(["received", "done", "failed", "dropped", "result", "input"]),
    )
    def somebody_says_something_odd(
        self, run: str, item: int, cut: int, name: str, what: str
    ) -> None:
        at = ActivationId(run, item, cut)
        task = TaskId(run, item, cut, cut + 1)
        said: dict[str, Any] = {
            "received": dev.FrameReceived(at, "x", 1, 0.0),
            "done": dev.TaskDone(task, 0.0, 0.0, 0.0, 0.1, 0.0, 1, 1, 1, parked=bool(item % 2)),
            "failed": dev.TaskFailed(task, "compute_failed", "odd"),
            "dropped": dev.FrameDropped(at, "early", "odd"),
        }
        head = FrameHead(
            self.world.manifest.digest,
            at,
            0,
            exact=False,
            barrier=False,
            nbytes=10,
            raw_nbytes=8,
            tensors=(),
        )
        agent = self.world.agents.get(name)
        if what == "result":
            self.world.tell(ev.ResultArrived(name, head))
        elif what == "input":
            self.world.tell(ev.InputArrived("clients/eve/s", head))
        elif agent is not None and agent.online:
            agent.say(said[what])

    @rule(
        name=names,
        generation=st.integers(0, 3),
        revision=st.integers(0, 9),
        status=st.sampled_from(["resident", "failed", "cached", "evicting", "waiting"]),
        retained=st.booleans(),
    )
    def an_odd_residency_is_said(
        self, name: str, generation: int, revision: int, status: str, retained: bool
    ) -> None:
        agent = self.world.agents.get(name)
        if agent is None or not agent.status:
            return
        part: PartitionId = next(iter(agent.status))
        entry = (
            copy.replace(agent.status[part], status=status)
            if hasattr(copy, "replace")
            else (
                type(agent.status[part])(part, "tiny", status, 0, 1)  # type: ignore[arg-type] # a literal
            )
        )
        told = Residency(agent.connection, generation, revision, (entry,), 0, 0)
        self.world.tell(ev.ResidencySeen(name, told, retained))
        self.world.tell(ev.AssignmentSeen(name, generation))

    @invariant()
    def an_item_has_at_most_one_kind_of_outcome(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.run_for(0.03)
        outcomes = self.world.outcomes
        assert all(len(set(what)) == 1 for what in outcomes.values())

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        self.losing.clear()
        world.client_there = True
        for agent in world.agents.values():
            agent.mute = False
            self.everything_works_there(agent.name)
            agent.start()
        for run in self.asked:
            world.ask(Resume(run))
        world.run_for(5.0)
        world.run_for(900.0, self.all_ended)
        assert self.all_ended(), {
            run: [world.outcomes.get((run, item)) for item in range(items)]
            for run, items in self.asked.items()
        }
        self.an_item_has_at_most_one_kind_of_outcome()
        self.no_state_is_left()

    def all_ended(self) -> bool:
        """Every item that reached the journal has an outcome there, and the client got it."""
        state = self.world.machine.state
        left = any(run.items for run in state.runs.values())
        fed = all(
            self.world.feeding.get(run, (0, 0))[0] == items or self.refused(run)
            for run, items in self.asked.items()
        )
        return fed and not left

    def refused(self, run: str) -> bool:
        known = self.world.machine.state.runs.get(run)
        return known is None or not known.open

    def no_state_is_left(self) -> None:
        world = self.world
        world.run_for(2.0)
        assert not any(plan.in_flight for plan in world.machine.state.plans.values())
        assert not any(items for items in world.inputs.values())
        for agent in world.agents.values():
            agent.report()
        world.run_for(2.0)
        for agent in world.agents.values():
            held = {*agent.outputs, *agent.inputs}
            assert not {at for at in held if at.run in self.asked}, (agent.name, held)


TestChaos = pytest.mark.timeout(900)(Chaos.TestCase)  # shrinking takes long
TestChaos.settings = schedules(40, steps=25)


def test_two_machines_that_are_told_the_same_say_the_same() -> None:
    logs = []
    for _ in range(2):
        world = World(tiny_manifest(weights=[10 * MB] * 4)).begin("a", "b", "c")
        world.submit(items=5, options=RunOptions(barrier=True))
        world.run_for(0.7)
        world.agents["b"].die()
        world.complete(items=5)
        logs.append(world.carried_out)
    assert logs[0] == logs[1]
    assert CLIENT
