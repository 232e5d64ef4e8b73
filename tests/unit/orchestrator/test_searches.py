"""Searches for plans that are answered late, never, or of no use."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.machine.plans.searching import LIMIT_S
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from tests.support.fake_fleet import CLIENT, World
from tests.support.planner_beside import answered
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages import requests as req
from wire.messages.residency import Failure


class SlowPlanner(World):
    """Answers when it is told to; `None` as `takes_s`: never."""

    takes_s: float | None = 0.0

    def _do_SearchPlan(self, each: ins.SearchPlan) -> None:  # noqa: N802
        if self.takes_s is not None:
            told = answered(each)
            self.tell(told, self.takes_s)


def world_of(*names: str, takes_s: float | None = 0.0, **of: Any) -> SlowPlanner:
    world = SlowPlanner(tiny_manifest(weights=[10 * MB] * 3))
    world.takes_s = takes_s
    world.begin(*names, **of)
    return world


def searches(world: World) -> int:
    return len(world.instructions(ins.SearchPlan))


@pytest.mark.parametrize("takes_s", [0.3, 3.0, 20.0])
def test_a_run_waits_for_an_answer_and_goes_on(takes_s: float) -> None:
    world = world_of("a", "b", takes_s=takes_s)
    world.submit(items=3)
    world.complete(items=3, limit_s=100.0)
    assert {each[0] for each in world.outcomes.values()} == {"result"}


def test_a_run_whose_search_is_never_answered_is_told_so() -> None:
    world = world_of("a", takes_s=None)
    world.submit(items=1)
    world.run_for(LIMIT_S + 5.0)
    (rejected,) = [each for each in world.told if isinstance(each, req.Rejected)]
    assert rejected.kind == "timed_out"
    assert not world.machine.state.runs


def test_a_run_may_be_cancelled_while_it_is_searched_for() -> None:
    world = world_of("a", takes_s=5.0)
    world.submit(items=1)
    world.run_for(1.0)
    world.ask(req.CancelRun("r1"))
    world.run_for(20.0)
    assert not world.machine.state.runs
    assert not world.machine.state.gathering


def test_many_clients_that_want_the_same_are_answered_by_one_search() -> None:
    world = world_of("a", "b", takes_s=1.0)
    for index in range(200):
        world.ask(req.Submit(f"r{index}", "tiny"), f"clients/user{index}/s1")
    world.run_for(5.0)
    assert searches(world) == 1
    assert len([each for each in world.told if isinstance(each, req.Accepted)]) == 200


def test_ranges_that_a_device_refuses_are_not_searched_for_again_and_again() -> None:
    world = world_of("a")
    world.agents["a"].fail_load = lambda partition: Failure("load_failed", "it cannot")
    world.submit(items=2)
    world.run_for(60.0, lambda: world.finished(items=2))
    assert world.finished(items=2)
    assert searches(world) < 20


def test_a_draining_device_that_falls_silent_keeps_nobody_awake() -> None:
    world = world_of("a", "b")
    world.agents["a"].say_state("draining")
    world.run_for(1.0)
    world.agents["a"].mute = True
    world.agents["a"].online = False
    woken = 0
    end = world.now + 200.0
    while world.now < end:
        wake = world.machine.wake_at()
        world.now = end if wake is None else max(world.now, wake)
        world._handle(ev.Ticked())
        woken += 1
    assert woken < 100


def test_room_that_comes_free_is_told_to_all_who_were_refused() -> None:
    world = world_of("a")
    state = world.machine.state
    for index in range(40):
        world.tell(ev.RequestArrived(CLIENT, req.Submit(f"r{index}", "tiny")))
    world.run_for(2.0)
    runs = list(state.runs.values())
    for run in runs:
        state.budget.spool(run, 1)
        state.budget.promise(run, 0, 0)
        run.arrive(0, world.now).nbytes = 1
        run.items[0].has_input = True
    state.budget.spool(runs[0], 0)
    state.agenda.look("room", "")
    world.run_for(3.0)
    assert not state.budget.refused
