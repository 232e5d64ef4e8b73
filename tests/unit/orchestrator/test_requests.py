"""What clients ask for, what they are told, and what is kept for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.fake_fleet import CLIENT, World
from tests.support.planner_beside import handled
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.ids import ActivationId
from wire.messages import requests as req
from wire.messages.requests import RunOptions


def world_of(*names: str, **of: Any) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names, **of)


def told(world: World, kind: type[Any]) -> list[Any]:
    return [each for each in world.told if isinstance(each, kind)]


def test_a_run_is_accepted_only_once_it_is_on_disk() -> None:
    world = world_of("a")
    submit = req.Submit("r1", "tiny", count=1)
    out = handled(world.machine, ev.RequestArrived(CLIENT, submit), world.now)
    assert [type(each) for each in out] == [ins.StoreRun]
    out = world.machine.handle(ev.RunStored("r1"), world.now)
    assert ins.Respond(CLIENT, req.Accepted("r1", world.manifest.digest, 32)) in out


def test_a_model_that_is_served_exactly_only_takes_no_other_run() -> None:
    world = World(replace(tiny_manifest(weights=[10 * MB] * 3), exact_only=True)).begin("a")
    world.ask(req.Submit("r1", "tiny", count=1))
    world.run_for(0.1)
    (rejected,) = told(world, req.Rejected)
    assert "served exactly only" in rejected.reason
    world.ask(req.Submit("r2", "tiny", RunOptions(exact=True), count=1))
    world.run_for(0.1)
    assert [each.run for each in told(world, req.Accepted)] == ["r2"]


def test_submitting_again_is_answered_again_and_is_one_run() -> None:
    world = world_of("a")
    for _ in range(3):
        world.submit(items=1)
    world.complete(items=1)
    world.ask(req.Submit("r1", "tiny", count=1))
    world.run_for(0.1)
    assert len(told(world, req.Accepted)) >= 2
    assert len(world.instructions(ins.StoreRun)) == 1


def test_another_clients_run_id_is_refused() -> None:
    world = world_of("a")
    world.ask(req.Submit("r1", "tiny"))
    world.run_for(0.1)
    world.ask(req.Submit("r1", "tiny"), party="clients/bob/s1")
    world.run_for(0.1)
    (rejected,) = told(world, req.Rejected)
    assert "another client" in rejected.reason


@pytest.mark.parametrize(
    ("submit", "kind", "says"),
    [
        (req.Submit("r", "nope"), "unknown_model", "there is tiny"),
        (req.Submit("r", "tiny", RunOptions(barrier=True)), "invalid_input", "number of its items"),
        (req.Submit("r", "tiny", RunOptions(policy="x")), "invalid_input", "affinity or cost"),
        (req.Submit("r", "tiny", RunOptions(partitions=9)), "invalid_input", "ask for 1 to 3"),
        (req.Submit("r", "tiny", RunOptions(partitions=0)), "invalid_input", "ask for 1 to 3"),
        (req.Submit("r", "tiny", RunOptions(lifetime_s=0.0)), "invalid_input", "lifetime"),
        (req.Submit("r", "tiny", count=-1), "invalid_input", "-1 items"),
    ],
)
def test_a_run_that_cannot_be_is_refused_with_what_would_do(
    submit: req.Submit, kind: str, says: str
) -> None:
    world = world_of("a")
    world.ask(submit)
    world.run_for(0.1)
    (rejected,) = told(world, req.Rejected)
    assert rejected.kind == kind
    assert says in rejected.reason


def test_a_fleet_too_small_is_said_at_once_with_what_is_missing() -> None:
    world = world_of("a", "b", budget=5 * MB)
    world.submit()
    world.run_for(0.1)
    (rejected,) = told(world, req.Rejected)
    assert rejected.kind == "fleet_too_small"
    assert "are missing" in rejected.reason


def test_a_run_without_a_device_waits_for_one_and_then_says_so() -> None:
    world = world_of()
    world.submit(items=2)
    world.run_for(20.0)
    assert not world.outcomes
    took_s = world.complete(items=2)
    assert took_s < 15.0
    assert world.outcomes["r1", 0] == ["no_device"]


def test_a_run_waits_for_devices_that_have_yet_to_prove_life() -> None:
    world = world_of()
    agent = world_of("a").agents["a"]
    world.agents["a"] = agent
    agent.world = world
    world.tell(ev.DeviceStateSeen("a", agent.state(), True))
    world.submit(items=1)
    world.complete(items=1)
    assert world.outcomes["r1", 0] == ["result"]


def test_cancelling_a_run_ends_its_items_and_tells_the_devices() -> None:
    world = world_of("a", "b", compute_s=1.0)
    world.submit(items=3)
    world.run_for(5.0, lambda: bool(world.happened("TaskStarted")))
    world.ask(req.CancelRun("r1"))
    world.complete(items=3)
    assert {tuple(each) for each in world.outcomes.values()} == {("cancelled",)}
    assert not any(agent.inputs or agent.outputs for agent in world.agents.values())
    assert told_progress(world)[-1].status == "cancelled"


def told_progress(world: World) -> list[req.RunProgress]:
    return [each.progress for each in world.instructions(ins.PublishRun)]


def test_a_run_whose_results_were_acknowledged_is_forgotten_and_later_cleared() -> None:
    world = world_of("a")
    world.submit(items=2)
    world.complete(items=2)
    world.ask(req.AcknowledgeResults("r1", (0, 1)))
    world.run_for(1.0)
    assert world.instructions(ins.ForgetRun) == [ins.ForgetRun("r1")]
    assert told_progress(world)[-1].status == "done"
    assert not world.instructions(ins.ClearRun)
    world.run_for(61.0)
    assert world.instructions(ins.ClearRun) == [ins.ClearRun("r1")]


def test_a_run_without_a_count_is_over_once_its_client_finishes_it() -> None:
    world = world_of("a")
    world.feeding["r1"] = (0, 3)
    world.ask(req.Submit("r1", "tiny"))
    world.complete(items=3)
    assert told_progress(world)[-1].status == "running"
    world.finish("r1", 3)
    world.run_for(1.0)
    assert told_progress(world)[-1].status == "done"
    assert world.instructions(ins.StoreCount) == [ins.StoreCount("r1", 3)]


def test_a_count_below_what_was_sent_is_not_taken() -> None:
    world = world_of("a")
    world.feeding["r1"] = (0, 3)
    world.ask(req.Submit("r1", "tiny"))
    world.complete(items=3)
    world.finish("r1", 2)
    world.run_for(0.1)
    assert not world.instructions(ins.StoreCount)


def test_resuming_sends_every_outcome_again_that_was_not_acknowledged() -> None:
    world = world_of("a")
    world.submit(items=3)
    world.complete(items=3)
    world.ask(req.AcknowledgeResults("r1", (0,)))
    world.ask(req.Resume("r1"))
    world.run_for(0.1)
    assert [len(world.outcomes["r1", item]) for item in range(3)] == [1, 2, 2]
    assert told(world, req.InputsStored)[-1].ranges == ((0, 2),)


def test_resuming_a_run_that_is_not_known_is_answered() -> None:
    world = world_of("a")
    world.ask(req.Resume("r9"))
    world.run_for(0.1)
    assert "not known here" in told(world, req.Rejected)[0].reason


def test_a_run_that_nobody_fetches_is_forgotten_after_its_lifetime() -> None:
    world = world_of("a")
    world.submit(items=1, options=RunOptions(lifetime_s=100.0))
    world.complete(items=1)
    world.client_there = False
    world.run_for(90.0)
    assert not world.instructions(ins.ForgetRun)
    world.run_for(20.0)
    assert world.instructions(ins.ForgetRun)


def test_a_run_whose_results_were_not_fetched_in_time_says_so_to_who_asks_late() -> None:
    world = world_of("a")
    world.submit(items=1, options=RunOptions(lifetime_s=100.0))
    world.complete(items=1)
    world.client_there = False
    world.run_for(110.0)
    world.ask(req.Resume("r1"))
    world.run_for(0.1)
    (rejected,) = told(world, req.Rejected)
    assert rejected.reason == "its results were not fetched within its lifetime of 100 s"


def test_an_open_run_outlives_its_lifetime_while_its_client_is_there() -> None:
    world = world_of("a")
    world.ask(req.Submit("r1", "tiny", RunOptions(lifetime_s=2.0)))
    world.run_for(60.0)
    assert world.machine.state.runs["r1"].open


def test_a_run_can_be_cancelled_before_it_is_on_disk() -> None:
    world = world_of("a")
    handle = world.machine.handle
    handled(world.machine, ev.RequestArrived(CLIENT, req.Submit("r1", "tiny", count=2)), world.now)
    out = handle(ev.RequestArrived(CLIENT, req.CancelRun("r1")), world.now)
    assert [type(each) for each in out if "Run" in type(each).__name__][-1] == ins.ForgetRun
    out = handle(ev.RunStored("r1"), world.now)
    assert not [each for each in out if isinstance(each, ins.Respond)]
    assert not world.machine.state.runs


def test_progress_is_published_at_most_twice_a_second_and_at_each_change_of_status() -> None:
    world = world_of("a")
    world.submit(items=60)
    world.complete(items=60)
    world.run_for(1.0)
    published = [(at, e.progress) for at, e in world.carried_out if isinstance(e, ins.PublishRun)]
    statuses = [each.status for _, each in published]
    assert statuses[0] == "accepted"
    assert statuses[-1] == "done"
    running = [at for at, each in published if each.status == "running"]
    assert len(running) <= 2 * (running[-1] - running[0]) + 2
    assert published[-1][1].done == 60


def test_a_disk_that_refuses_a_run_rejects_it() -> None:
    world = world_of("a")
    world._do_StoreRun = lambda each: world.tell(  # type: ignore[method-assign] # a broken disk
        ev.JournalFailed("run", each.run, None, "disk_full", "no space left")
    )
    world.submit()
    world.run_for(0.1)
    assert told(world, req.Rejected)[0].kind == "disk_full"


@pytest.mark.parametrize("what", ["input", "outcome"])
def test_a_disk_that_refuses_an_input_or_an_outcome_fails_the_item(what: str) -> None:
    world = world_of("a")
    refused = ev.JournalFailed(what, "r1", 0, "disk_full", "no space left")  # type: ignore[arg-type] # one of them
    if what == "input":
        world._do_StoreInput = lambda each: world.tell(refused)  # type: ignore[method-assign] # a broken disk
    else:
        world._do_StoreOutcome = lambda each: world.tell(refused)  # type: ignore[method-assign] # a broken disk
    world.submit(items=1)
    if what == "input":
        world.complete(items=1)
    else:
        world.run_for(10.0, lambda: world.finished(items=1))
    assert world.outcomes["r1", 0] == ["disk_full"]


def test_an_input_that_the_disk_refuses_stays_with_its_client_until_the_error_is_on_disk() -> None:
    world = world_of("a")
    for what in ("input", "outcome"):
        refused = ev.JournalFailed(what, "r1", 0, "disk_full", "no space left")  # type: ignore[arg-type] # one of them
        name = f"_do_Store{what.capitalize()}"
        setattr(world, name, lambda each, refused=refused: world.tell(refused))
    world.submit(items=1)
    world.run_for(5.0)
    assert world.outcomes["r1", 0] == ["disk_full"]
    assert not any(each.ranges for each in told(world, req.InputsStored))


def test_a_removed_model_ends_its_runs_and_leaves_the_devices() -> None:
    world = world_of("a", compute_s=1.0)
    world.submit(items=3)
    world.run_for(5.0, lambda: bool(world.happened("TaskStarted")))
    world.tell(ev.ModelRemoved("tiny"))
    world.complete(items=3)
    assert {tuple(each) for each in world.outcomes.values()} == {("unknown_model",)}
    assert world.instructions(ins.ClearModel) == [ins.ClearModel("tiny")]
    assert not world.retained["a"].partitions
    world.submit("r2")
    world.run_for(0.1)
    assert told(world, req.Rejected)[-1].kind == "unknown_model"


@pytest.mark.parametrize("replaced", [False, True])
def test_the_runs_of_a_model_that_goes_are_told_whether_another_came(replaced: bool) -> None:
    world = world_of("a", compute_s=1.0)
    world.submit(items=3)
    world.run_for(5.0, lambda: bool(world.happened("TaskStarted")))
    world.tell(ev.ModelRemoved("tiny", replaced))
    world.complete(items=3)
    (said,) = told(world, req.Rejected)
    how = "was replaced by another, or cut otherwise" if replaced else "was removed"
    assert f"model 'tiny' {how}" in said.reason


def test_a_result_lost_on_the_last_way_is_sent_again() -> None:
    world = world_of("a")
    lost = []

    def lose(sender: str, activation: ActivationId, to: str) -> bool:
        if activation.cut == 3 and not lost:
            lost.append(activation)
            world.tell(ev.FrameLost(sender, activation, "timed_out", "2 of 3 parts came"))
            return True
        return False

    world.lose_frame = lose
    world.submit(items=1)
    assert world.complete(items=1) < 5.0
    assert world.outcomes["r1", 0] == ["result"]


def test_stored_items_that_nothing_lets_in_end_with_what_they_waited_for() -> None:
    options = OrchestratorOptions(item_limit_s=100.0)
    world = World(tiny_manifest(), options).begin("a")
    world.submit("r1", items=1, options=RunOptions(barrier=True))
    world.complete("r1", items=1)
    world.ask(req.Submit("r2", "tiny", RunOptions(barrier=True), count=2))
    world.run_for(0.1)
    world.feed("r2", 0)  # the second never comes
    world.run_for(150.0, lambda: ("r2", 0) in world.outcomes)
    assert world.outcomes["r2", 0] == ["timed_out"]
    assert "to be admitted" in told(world, req.ItemFailed)[0].reason


def test_whoever_submits_a_run_again_that_is_over_is_told_how_it_ended() -> None:
    world = world_of("a")
    world.client_there = False
    world.ask(req.Submit("r1", "tiny", count=2))
    world.run_for(0.1)
    world.ask(req.CancelRun("r1"))
    world.run_for(0.1)
    world.ask(req.Submit("r1", "tiny", count=2))
    world.run_for(0.1)
    (rejected,) = told(world, req.Rejected)
    assert rejected.kind == "cancelled"
    assert len(world.instructions(ins.StoreRun)) == 1
