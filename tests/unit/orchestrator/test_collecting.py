"""A run outlives its client: another session of the same user lists it, and takes it over."""

from __future__ import annotations

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.fake_fleet import CLIENT, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages import requests as req
from wire.messages.requests import RunOptions
from wire.topics import nobody_of

OTHER, BOB = "clients/ann/s2", "clients/bob/s1"
OPTIONS = OrchestratorOptions()
DETACHED = RunOptions(detached=True, lifetime_s=1000.0)


def world_of(*names: str, **of: object) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names, **of)


def detached(items: int = 3, **of: object) -> World:
    """Its client went once all inputs were stored."""
    world = world_of("a", **of)
    world.submit(items=items, options=DETACHED)
    run = world.machine.state.runs
    world.run_for(20.0, lambda: "r1" in run and run["r1"].whole)
    assert run["r1"].whole
    world.ask(req.LeaveRun("r1"))
    world.client_there = False
    return world


def collect(world: World, party: str = OTHER, run: str = "r1") -> req.Response:
    """What it is told of that."""
    before = len(world.told)
    world.ask(req.CollectRun(run, world.manifest.digest), party)
    world.run_for(0.2)
    answers = (req.Collected, req.Rejected)
    return next(each for each in world.told[before:] if isinstance(each, answers))


def read(world: World, party: str = OTHER) -> None:
    assert isinstance(collect(world, party), req.Collected)
    world.ask(req.Resume("r1"), party)
    world.run_for(1.0)


def listed(world: World, party: str = CLIENT, run: str | None = None) -> req.RunsListed:
    world.ask(req.ListRuns("q", run), party)
    world.run_for(0.2)
    answer = world.told[-1]
    assert isinstance(answer, req.RunsListed)
    return answer


def sent_to(world: World, party: str) -> list[int]:
    return [each.activation.item for each in world.instructions(ins.SendResult) if each.to == party]


def test_a_detached_run_is_served_without_its_client_and_sends_nobody_anything() -> None:
    world = detached(compute_s=30.0)
    world.run_for(OPTIONS.client_gone_s + 100.0)
    run = world.machine.state.runs["r1"]
    assert (run.state, run.done, len(run.outcomes)) == ("done", 3, 3)
    assert world.outcomes == {}


def test_another_session_collects_it_each_item_once_and_then_it_is_forgotten() -> None:
    world = detached()
    world.run_for(10.0)
    read(world)
    assert sent_to(world, OTHER) == [0, 1, 2]
    assert world.outcomes == {("r1", item): ["result"] for item in range(3)}
    world.ask(req.AcknowledgeResults("r1", (0, 1, 2)), OTHER)
    world.run_for(1.0)
    assert "r1" not in world.machine.state.runs
    assert listed(world, run="r1").gone == "it is over, and all of its results were fetched"
    assert listed(world, BOB, "r1").gone is None
    rejected = collect(world)
    assert isinstance(rejected, req.Rejected)
    assert (rejected.kind, "fetched" in rejected.reason) == ("unknown_run", True)


def test_who_collects_while_it_runs_gets_what_comes_later_as_well() -> None:
    world = detached(compute_s=5.0)
    read(world)
    assert not world.finished()
    world.ask(req.Renew(("r1",)), OTHER)
    world.complete()
    assert sent_to(world, OTHER) == [0, 1, 2]


def test_one_that_is_read_is_not_collected_before_its_reader_is_gone() -> None:
    world = detached()
    world.run_for(10.0)
    read(world)
    busy = collect(world, "clients/ann/s3")
    assert isinstance(busy, req.Rejected)
    assert (busy.kind, busy.again_s) == ("busy", 2.0)
    world.run_for(OPTIONS.client_lease_s)
    assert isinstance(collect(world, "clients/ann/s3"), req.Collected)


def test_who_leaves_it_gives_it_to_the_next_at_once_with_all_it_did_not_acknowledge() -> None:
    world = detached()
    world.run_for(10.0)
    read(world)
    world.ask(req.AcknowledgeResults("r1", (1,)), OTHER)
    world.ask(req.LeaveRun("r1"), OTHER)
    world.run_for(1.0)
    collected = collect(world, "clients/ann/s3")
    assert isinstance(collected, req.Collected)
    assert collected.items == ((0, 0), (2, 2))


def test_late_words_of_who_left_it_acknowledge_nothing() -> None:
    world = detached()
    world.run_for(10.0)
    world.ask(req.AcknowledgeResults("r1", (0, 1)))
    world.run_for(1.0)
    assert len(world.machine.state.runs["r1"].outcomes) == 3


def test_the_run_of_a_client_that_was_killed_is_collected_with_the_items_that_are_here() -> None:
    world = world_of("a")
    world.submit(items=3)
    world.feeding["r1"] = (0, 2)
    world.ask(req.Submit("r1", "tiny", count=3))
    world.run_for(2.0)
    world.client_there = False
    world.run_for(OPTIONS.client_lease_s + 1.0)
    collected = collect(world)
    run = world.machine.state.runs["r1"]
    if isinstance(collected, req.Collected):  # item 2 never came
        assert run.count == max(run.stored.highest, run.highest) + 1
    read(world)
    world.run_for(60.0)
    assert world.machine.state.runs["r1"].over


def test_an_input_that_never_came_has_an_error_for_whoever_collects() -> None:
    world = world_of("a")
    world.ask(req.Submit("r1", "tiny", RunOptions(), 6))
    world.run_for(0.5)
    for item in (0, 3):
        world.feed("r1", item)
    world.run_for(0.5)
    world.client_there = False
    world.run_for(OPTIONS.client_lease_s + 1.0)
    read(world)
    world.run_for(5.0)
    run = world.machine.state.runs["r1"]
    assert (run.state, run.count, run.done, run.failed) == ("done", 4, 2, 2)
    failures = {each.item: each.reason for each in world.told if isinstance(each, req.ItemFailed)}
    assert failures == {
        item: f"item {item}: its client went before the input was here" for item in (1, 2)
    }


def test_with_too_many_gaps_the_run_ends_as_a_whole() -> None:
    world = world_of("a")
    world.ask(req.Submit("r1", "tiny", RunOptions(), 500_000))
    world.run_for(0.5)
    world.feed("r1", 499_999)
    world.run_for(0.5)
    world.client_there = False
    world.run_for(OPTIONS.client_lease_s + 1.0)
    collected = collect(world)
    assert isinstance(collected, req.Collected)
    assert collected.items == ((499_999, 499_999),)
    assert world.machine.state.runs["r1"].state == "failed"


def test_after_a_restart_it_goes_on_for_whoever_took_it_over() -> None:
    world = detached(compute_s=10.0)
    read(world)
    world.client_there = True  # who has it by now
    world.start_orchestrator()
    world.run_for(5.0)
    run = world.machine.state.runs["r1"]
    assert (run.party, run.unread) == (OTHER, False)
    world.ask(req.Resume("r1"), OTHER)
    world.complete(limit_s=120.0)
    assert set(sent_to(world, OTHER)) == {0, 1, 2}


def test_after_a_restart_one_that_was_left_is_collected_and_one_that_is_read_is_not() -> None:
    world = detached(compute_s=10.0)
    world.run_for(1.0)
    world.start_orchestrator()
    world.run_for(1.0)
    read(world)
    world.start_orchestrator()
    world.run_for(1.0)
    busy = collect(world, "clients/ann/s3")
    assert isinstance(busy, req.Rejected)
    assert busy.kind == "busy"


def test_who_collects_is_told_so_once_that_is_on_disk() -> None:
    world = detached(compute_s=10.0)
    asked = ev.RequestArrived(OTHER, req.CollectRun("r1", world.manifest.digest))
    out = world.machine.handle(asked, world.now)
    assert ins.StoreParty("r1", OTHER) in out
    assert not [each for each in out if isinstance(each, ins.Respond)]
    out = world.machine.handle(ev.PartyStored("r1", OTHER), world.now)
    (told,) = [each for each in out if isinstance(each, ins.Respond)]
    assert (told.party, told.response) == (OTHER, req.Collected("r1", ((0, 2),), (1, 0)))


def test_who_collects_and_is_not_told_before_a_crash_asks_again_and_has_it() -> None:
    world = detached(compute_s=10.0)
    world.machine.handle(
        ev.RequestArrived(OTHER, req.CollectRun("r1", world.manifest.digest)), world.now
    )  # what it says is lost
    world.start_orchestrator()
    world.run_for(1.0)
    assert isinstance(collect(world), req.Collected)


def test_who_leaves_before_it_is_told_that_it_has_the_run_is_not_told_any_more() -> None:
    world = detached(compute_s=10.0)
    for request in (req.CollectRun("r1", world.manifest.digest), req.LeaveRun("r1")):
        world.machine.handle(ev.RequestArrived(OTHER, request), world.now)
    for party in (OTHER, nobody_of("ann")):
        assert not world.machine.handle(ev.PartyStored("r1", party), world.now)
    assert isinstance(collect(world, "clients/ann/s3"), req.Collected)


def test_one_that_was_left_before_it_could_go_alone_ends_also_after_a_restart() -> None:
    world = world_of("a")
    world.submit(items=3)
    world.run_for(0.5)
    world.ask(req.LeaveRun("r1"))
    world.client_there = False
    world.run_for(1.0)
    world.start_orchestrator()
    world.run_for(OPTIONS.client_gone_s + 5.0)
    run = world.machine.state.runs.get("r1")
    assert run is None or not run.open


def test_who_was_replaced_is_told_so_and_can_do_nothing_more() -> None:
    world = detached()
    world.run_for(10.0)
    read(world)
    world.ask(req.Resume("r1"))
    world.ask(req.AcknowledgeResults("r1", (0,)))
    world.run_for(0.5)
    rejected = next(each for each in world.told if isinstance(each, req.Rejected))
    assert "another session" in rejected.reason
    assert len(world.machine.state.runs["r1"].outcomes) == 3


def test_who_asks_after_a_run_that_was_left_is_told_that_nobody_reads_it() -> None:
    world = detached()
    world.run_for(10.0)
    world.ask(req.Resume("r1"), OTHER)
    world.run_for(0.5)
    (rejected,) = [each for each in world.told if isinstance(each, req.Rejected)]
    assert (rejected.kind, "no session reads this run now" in rejected.reason) == ("user", True)


def test_who_asks_after_a_run_whose_reader_is_not_heard_of_is_told_that_nobody_reads_it() -> None:
    world = detached()
    world.run_for(10.0)
    read(world)
    world.run_for(OPTIONS.client_gone_s)
    world.ask(req.Resume("r1"), "clients/ann/s3")
    world.run_for(0.5)
    (rejected,) = [each for each in world.told if isinstance(each, req.Rejected)]
    assert "no session reads this run now" in rejected.reason


def test_of_another_users_run_it_is_told_what_it_is_told_of_none() -> None:
    world = detached()
    world.run_for(10.0)
    theirs, none = collect(world, BOB), collect(world, BOB, "nosuch")
    assert isinstance(theirs, req.Rejected)
    assert isinstance(none, req.Rejected)
    assert theirs.reason == none.reason.replace("nosuch", "r1")
    assert theirs.kind == none.kind == "unknown_run"
    assert listed(world, BOB) == req.RunsListed("q", ())
    assert listed(world, BOB, "r1") == req.RunsListed("q", ())
    read(world)
    world.ask(req.AcknowledgeResults("r1", (0, 1, 2)), OTHER)
    world.run_for(1.0)
    gone = collect(world, BOB)
    assert isinstance(gone, req.Rejected)
    assert gone.reason == theirs.reason


def test_a_run_of_another_model_under_the_name_is_not_collected() -> None:
    world = detached()
    before = len(world.told)
    world.ask(req.CollectRun("r1", "sha256:other"), OTHER)
    world.run_for(0.2)
    kinds = [each.kind for each in world.told[before:] if isinstance(each, req.Rejected)]
    assert kinds == ["user"]


def test_another_session_of_the_user_cancels_it() -> None:
    world = detached(compute_s=30.0)
    world.ask(req.CancelRun("r1"), OTHER)
    world.run_for(1.0)
    assert world.machine.state.runs["r1"].state == "cancelled"
    (row,) = listed(world).runs
    assert (row.progress.status, row.kept) == ("cancelled", 3)


def test_the_list_has_the_newest_first_with_what_a_person_asks() -> None:
    world = detached(compute_s=5.0)
    world.run_for(20.0)
    world.submit("r2", items=2)
    world.run_for(1.0)
    answer = listed(world, OTHER)
    assert [each.progress.run for each in answer.runs] == ["r2", "r1"]
    newest, oldest = answer.runs
    assert (newest.progress.attended, oldest.progress.attended) == (True, False)
    assert oldest.age_s > newest.age_s + 15.0
    assert listed(world, OTHER, "r1").runs[0].progress.run == "r1"


def test_of_many_runs_the_last_ones_are_listed_and_the_rest_counted() -> None:
    world = world_of()
    state = world.machine.state
    for index in range(req.LISTED_COUNT + 5):
        world.ask(req.Submit(f"r{index}", "tiny", DETACHED), f"clients/ann/s{index}")
    world.run_for(2.0)
    answer = listed(world, OTHER)
    assert (len(answer.runs), answer.left_out) == (req.LISTED_COUNT, len(state.runs) - 100)


def test_results_of_a_detached_run_are_kept_as_long_as_it_asked_for() -> None:
    world = detached()
    world.run_for(DETACHED.lifetime_s - 10.0)
    assert "r1" in world.machine.state.runs
    world.run_for(30.0)
    assert "r1" not in world.machine.state.runs


def test_a_detached_run_whose_client_went_before_all_inputs_were_here_ends() -> None:
    world = world_of("a")
    world.ask(req.Submit("r1", "tiny", DETACHED, 5))
    world.run_for(0.5)
    world.feed("r1", 0)
    world.client_there = False
    world.run_for(OPTIONS.client_gone_s + 5.0)
    assert world.machine.state.runs["r1"].state == "failed"


def test_who_collects_is_told_how_many_another_session_had() -> None:
    world = detached()
    world.run_for(10.0)
    read(world)
    world.ask(req.AcknowledgeResults("r1", (0, 2)), OTHER)
    world.ask(req.LeaveRun("r1"), OTHER)
    world.run_for(0.2)
    told = collect(world, "clients/ann/s3")
    assert isinstance(told, req.Collected)
    assert (told.items, told.had) == (((1, 1),), 2)
