"""A client that is gone leaves nothing reserved; one that comes back finds its run again."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.fake_fleet import CLIENT, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.ids import ActivationId
from wire.messages import requests as req
from wire.messages.requests import RunOptions
from wire.messages.residency import Failure

OTHER = "clients/ann/s2"
LEASE_S, GONE_S = OrchestratorOptions().client_lease_s, OrchestratorOptions().client_gone_s


def slow_world(*names: str, **of: Any) -> World:
    """An item takes about 90 s."""
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names, compute_s=30.0, **of)


def results(world: World, run: str = "r1") -> list[int]:
    return sorted(item for name, item in world.outcomes if name == run)


def rejections(world: World) -> list[tuple[str, str]]:
    return [(each.run, each.kind) for each in world.told if isinstance(each, req.Rejected)]


def told_reasons(world: World) -> list[str | None]:
    return [each.progress.reason for each in world.instructions(ins.PublishRun)]


def test_what_a_silent_clients_run_reserves_is_free_after_its_lease() -> None:
    world = slow_world("a", "b", "c")
    world.submit(items=8)
    world.run_for(20.0)
    assert world.machine.state.plans.reserved_nbytes("a") > 0
    world.client_there = False
    world.run_for(LEASE_S + 1.0)
    state = world.machine.state
    assert [state.plans.reserved_nbytes(name) for name in "abc"] == [0, 0, 0]
    assert state.runs["r1"].granted == 0
    assert "nothing is heard of its client" in (told_reasons(world)[-1] or "")


def test_a_silent_clients_run_gives_way_to_others_and_lets_nothing_more_in() -> None:
    world = slow_world("a", "b", "c", hold=15_000)  # one item at a time
    world.submit(items=8)
    world.run_for(20.0)
    world.client_there = False
    world.run_for(LEASE_S + 1.0)
    done = len(results(world))
    world.submit("r2", items=2)
    for _ in range(30):
        world.ask(req.Renew(("r2",)))
        world.run_for(10.0, lambda: world.finished("r2", 2))
    assert results(world, "r2") == [0, 1]
    assert len(results(world)) <= done + 4  # what was on devices by then
    assert world.machine.state.runs["r1"].waiting


def test_a_client_that_says_that_it_is_there_loses_nothing() -> None:
    world = slow_world("a")
    world.submit(items=6)
    world.complete(items=6, limit_s=700.0)
    assert {tuple(each) for each in world.outcomes.values()} == {("result",)}
    assert "silent_client" not in world.machine.state.counts


def test_a_client_that_comes_back_within_its_session_gets_every_result() -> None:
    world = slow_world("a", "b", "c")
    world.submit(items=20)
    world.run_for(20.0)
    world.client_there = False
    world.run_for(GONE_S - 30.0)
    assert len(results(world)) < 10
    world.client_there = True
    world.complete(items=20, limit_s=900.0)
    assert {each[0] for each in world.outcomes.values()} == {"result"}
    assert told_reasons(world)[-1] is None


def test_a_barrier_run_of_a_client_that_comes_back_goes_on() -> None:
    world = slow_world("a", "b", "c")
    world.submit(items=4, options=RunOptions(barrier=True))
    world.run_for(50.0)
    world.client_there = False
    world.run_for(LEASE_S + 60.0)
    assert not world.machine.state.runs["r1"].wave
    world.client_there = True
    world.complete(items=4, limit_s=900.0)
    assert {each[0] for each in world.outcomes.values()} == {"result"}


def test_the_run_of_a_client_that_stays_away_ends_and_its_results_are_kept() -> None:
    world = slow_world("a", "b", "c")
    world.submit(items=20, options=RunOptions(lifetime_s=1000.0))
    world.run_for(130.0)
    assert results(world)
    world.client_there = False
    world.run_for(GONE_S + 1.0)
    kept = {item: each for item, each in world.finals["r1"].items() if each.kind is None}
    ended = [each for each in world.finals["r1"].values() if each.kind is not None]
    assert {each.kind for each in ended} == {"timed_out"}
    assert "client" in ended[0].reason
    assert not world.inputs["r1"]
    world.run_for(5.0)
    assert not any(agent.inputs or agent.outputs for agent in world.agents.values())
    world.carried_out.clear()
    world.ask(req.Resume("r1"))
    world.run_for(0.1)
    sent = [each.activation.item for each in world.instructions(ins.SendResult)]
    assert sent == sorted(kept)
    world.run_for(1000.0)
    assert world.instructions(ins.ForgetRun)


def test_a_run_without_any_item_ends_with_its_client_who_is_told_if_it_returns() -> None:
    world = slow_world("a")
    world.ask(req.Submit("r1", "tiny"))
    world.client_there = False
    world.run_for(GONE_S + 1.0)
    assert world.instructions(ins.ForgetRun)
    for said in (req.Renew(("r1",)), req.Resume("r1")):
        world.ask(said)
        world.run_for(0.1)
    assert rejections(world) == [("r1", "timed_out")] * 2
    last = world.told[-1]
    assert isinstance(last, req.Rejected)
    assert "300 s" in last.reason


def test_any_word_of_a_client_renews_its_run() -> None:
    world = slow_world("a")
    world.ask(req.Submit("r1", "tiny"))
    world.client_there = False
    world.run_for(LEASE_S - 10.0)
    world.ask(req.Resume("r1"))
    world.run_for(LEASE_S - 10.0)
    world.tell(ev.InputArrived(CLIENT, world.head(ActivationId("r1", 0, 0))))
    world.run_for(LEASE_S - 10.0)
    assert "silent_client" not in world.machine.state.counts
    world.run_for(LEASE_S)
    assert world.machine.state.counts["silent_client"] == 1


def test_another_client_cannot_renew_a_run() -> None:
    world = slow_world("a")
    world.ask(req.Submit("r1", "tiny"))
    world.client_there = False
    for _ in range(7):
        world.ask(req.Renew(("r1",)), party="clients/bob/s1")
        world.run_for(10.0)
    assert world.machine.state.runs["r1"].silent


def test_silence_does_not_count_while_we_could_not_hear() -> None:
    world = slow_world("a")
    world.ask(req.Submit("r1", "tiny"))
    world.client_there = False
    world.run_for(LEASE_S - 10.0)
    world._handle(ev.Disconnected("the broker is gone"))
    world.run_for(GONE_S + 100.0)
    world._handle(ev.Connected("oc9"))
    world.run_for(LEASE_S - 10.0)
    assert not world.machine.state.runs["r1"].silent
    world.run_for(20.0)
    assert world.machine.state.runs["r1"].silent


def test_a_restarted_orchestrator_gives_clients_their_whole_lease_again() -> None:
    world = slow_world("a", "b", "c")
    world.submit(items=8)
    world.run_for(LEASE_S - 10.0)
    world.client_there = False
    world.start_orchestrator()
    world.run_for(LEASE_S - 10.0)
    assert not world.machine.state.runs["r1"].silent
    world.run_for(20.0)
    assert world.machine.state.runs["r1"].silent


def test_a_run_that_was_cancelled_with_no_item_open_stays_so_after_a_restart() -> None:
    world = World(tiny_manifest(weights=[10 * MB] * 3)).begin("a")
    world.submit(items=3)
    world.feeding["r1"] = (3, 3)  # the client sends none but these
    world.run_for(0.1)
    for item in range(2):
        world.feed("r1", item)
    world.run_for(5.0)
    assert results(world) == [0, 1]
    world.ask(req.CancelRun("r1"), party=OTHER)
    world.run_for(0.1)
    world.start_orchestrator()
    run = world.machine.state.runs["r1"]
    assert (run.state, run.fault) == ("cancelled", ("cancelled", run.reason))
    assert sorted(run.outcomes) == [0, 1]


def over(failing: bool) -> World:
    """Its items have their outcomes, which nobody acknowledged."""
    failure = Failure("compute_failed", "no") if failing else None
    world = World(tiny_manifest(weights=[10 * MB] * 3)).begin("a", fail_task=lambda task: failure)
    world.submit(items=2)
    world.run_for(30.0, lambda: world.finished("r1", 2))
    world.run_for(0.1)
    assert len(results(world)) == 2
    return world


def listed(world: World) -> list[tuple[bool, int]]:
    """Of the user's runs: whether their client is there, and how many outcomes are kept."""
    world.ask(req.ListRuns("q"), OTHER)
    world.run_for(0.2)
    told = [each for each in world.told if isinstance(each, req.RunsListed)][-1]
    return [(each.progress.attended, each.kept) for each in told.runs]


@pytest.mark.parametrize("failing", [True, False])
def test_the_client_of_a_run_that_is_over_is_there_no_longer_than_it_is_heard(
    failing: bool,
) -> None:
    world = over(failing)
    assert listed(world) == [(True, 2)]
    world.client_there = False
    world.run_for(LEASE_S + 5.0)
    assert listed(world) == [(False, 2)]
    world.ask(req.Resume("r1"))
    world.run_for(LEASE_S - 5.0)
    assert listed(world) == [(True, 2)]
    world.run_for(10.0)
    assert listed(world) == [(False, 2)]


@pytest.mark.parametrize("restarts", [False, True])
def test_errors_alone_are_kept_as_long_as_a_gone_clients_run_and_results_longer(
    restarts: bool,
) -> None:
    for failing, kept in ((True, []), (False, [(False, 2)])):
        world = over(failing)
        world.client_there = False
        if restarts:
            world.run_for(GONE_S / 2)
            world.start_orchestrator()
        world.run_for(GONE_S + 5.0)
        assert listed(world) == kept


def test_a_detached_runs_errors_are_kept_for_its_lifetime() -> None:
    world = World(tiny_manifest(weights=[10 * MB] * 3))
    world.begin("a", fail_task=lambda task: Failure("compute_failed", "no"))
    world.submit(items=2, options=RunOptions(detached=True, lifetime_s=2 * GONE_S))
    world.run_for(10.0)
    world.client_there = False
    world.run_for(GONE_S + LEASE_S)
    assert listed(world) == [(False, 2)]


def test_a_client_that_takes_no_more_of_its_run_leaves_nothing_of_it() -> None:
    for failing in (True, False):
        world = over(failing)
        world.ask(req.CancelRun("r1"))
        world.run_for(0.1)
        assert listed(world) == []
    world = slow_world("a")
    world.submit(items=2)
    world.run_for(20.0)
    world.ask(req.CancelRun("r1"))
    world.run_for(1.0)
    assert listed(world) == []
    world.start_orchestrator()
    assert not world.machine.state.runs
