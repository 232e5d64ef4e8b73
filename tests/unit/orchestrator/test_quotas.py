"""What a party and its user may have at once, what is told beyond it, and what that costs."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.calls import count_calls
from tests.support.fake_fleet import CLIENT, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages import requests as req

BOB = "clients/bob/s1"
FLOOD = 10_000


class StepsCounted(World):
    """A world that counts what its machine handles, but for submits of the flood."""

    steps = 0

    def _handle(self, event: ev.Event) -> None:
        if not (isinstance(event, ev.RequestArrived) and event.party == BOB):
            self.steps += 1
            super()._handle(event)
            return
        for instruction in self.machine.handle(event, self.now):
            self._carry_out(instruction)


def world_of(kind: type[World] = World, **options: Any) -> Any:
    manifest = tiny_manifest(weights=[10 * MB] * 3)
    return kind(manifest, OrchestratorOptions(**options)).begin("a", "b", "c")


def answers(world: World, party: str) -> list[Any]:
    return [each.response for each in world.instructions(ins.Respond) if each.party == party]


def busy(world: World, party: str) -> list[Any]:
    return [each for each in answers(world, party) if getattr(each, "kind", "") == "busy"]


def flood(world: World, count: int, party: str = BOB, prefix: str = "f") -> None:
    for index in range(count):
        world.ask(req.Submit(f"{prefix}{index}", "tiny"), party)


def test_more_runs_than_a_party_may_have_are_refused_with_the_bound_and_when_to_ask_again() -> None:
    world = world_of(party_runs=3)
    flood(world, 5)
    world.run_for(0.5)
    assert [each.run for each in busy(world, BOB)] == ["f3", "f4"]
    (first, _) = busy(world, BOB)
    assert "3 runs of this client are under way" in first.reason
    assert first.again_s > 0
    world.ask(req.CancelRun("f0"), BOB)
    world.ask(req.Submit("f3", "tiny"), BOB)
    world.run_for(0.5)
    assert world.machine.state.runs["f3"].open


def test_a_users_sessions_together_have_no_more_than_a_user_may() -> None:
    world = world_of(party_runs=3, user_runs=5)
    for session in range(4):
        flood(world, 3, f"clients/bob/s{session}", f"s{session}r")
    world.submit("r1", items=1)
    world.complete("r1", items=1)
    mine = [run for run in world.machine.state.runs.values() if run.user == "bob"]
    assert len(mine) == 5
    assert "5 runs of this user" in busy(world, "clients/bob/s3")[0].reason


def test_runs_that_ended_and_were_not_fetched_count_for_the_user_alone() -> None:
    world = world_of(party_runs=1, user_kept_runs=3)
    for index in range(3):
        world.submit(f"r{index}", items=1)
        world.complete(f"r{index}", items=1)
    world.submit("r3", items=1)
    world.run_for(0.5)
    assert "3 runs of this user are kept" in busy(world, CLIENT)[0].reason
    world.ask(req.AcknowledgeResults("r0", (0,)))
    world.submit("r3", items=1)
    world.complete("r3", items=1)


def test_ten_clients_with_tens_of_runs_are_served() -> None:
    world = world_of()
    for client in range(10):
        flood(world, 30, f"clients/u{client % 3}/s{client}", f"c{client}r")
    world.run_for(0.5)
    assert len(world.instructions(ins.StoreRun)) == 300
    world.machine.validate()


def test_a_flood_of_submits_changes_nothing_for_another_client() -> None:
    """10,000 within a second, of which 64 become runs."""
    alone, beside = world_of(StepsCounted), world_of(StepsCounted)
    for index in range(FLOOD):
        beside.tell(ev.RequestArrived(BOB, req.Submit(f"f{index}", "tiny")), index / FLOOD)
    steps, took_s = {}, {}
    for world in (alone, beside):
        before = world.steps
        world.submit("r1", items=60)
        took_s[world] = world.complete("r1", items=60)
        steps[world] = world.steps - before
    assert took_s[beside] <= 1.2 * took_s[alone]
    assert steps[beside] <= 1.2 * steps[alone]
    assert beside.machine.state.runs.under_way["bob"] == 64
    assert beside.machine.state.counts["busy"] > FLOOD - 600


def refused_submits(machine: OrchestratorMachine, now: float, count: int) -> list[int]:
    told: list[ins.Instruction] = []
    calls = []
    for index in range(count):
        submit = ev.RequestArrived(BOB, req.Submit(f"n{count}-{index}", "tiny"))
        calls.append(count_calls(lambda submit=submit: told.extend(machine.handle(submit, now))))
    kinds = {type(each) for each in told}
    assert kinds <= {ins.Respond}, "a refused request writes nothing and publishes nothing"
    assert len(told) <= 1, "and is answered at most once a second"
    return calls


def test_a_refused_request_costs_the_same_however_many_came_before() -> None:
    world = world_of()
    for index in range(500):
        submit = ev.RequestArrived(BOB, req.Submit(f"f{index}", "tiny"))
        world.machine.handle(submit, world.now)
    early = refused_submits(world.machine, world.now, 100)
    late = refused_submits(world.machine, world.now, 3000)[-100:]
    assert median(late) <= median(early) < 60
    assert max(late) <= 2 * median(early)


def test_who_flooded_is_served_again_a_moment_later() -> None:
    world = world_of(asks_per_s=10.0, asks_burst=20)
    flood(world, 300)
    world.run_for(0.5)
    assert len(world.instructions(ins.StoreRun)) == 20
    assert len(busy(world, BOB)) == 1
    world.run_for(1.0)
    flood(world, 10, prefix="later")
    world.run_for(0.5)
    assert len(world.instructions(ins.StoreRun)) == 30


def test_another_client_of_the_same_user_is_served_while_one_floods() -> None:
    world = world_of()
    flood(world, 1000)
    world.ask(req.Submit("mine", "tiny"), "clients/bob/s2")
    world.run_for(0.5)
    assert world.machine.state.runs["mine"].open


def test_what_is_said_of_runs_is_heard_while_submits_are_refused() -> None:
    world = world_of()
    flood(world, 1000)
    world.ask(req.CancelRun("f0"), BOB)
    world.run_for(0.5)
    assert not world.machine.state.runs.get("f0")


@pytest.mark.parametrize(
    "request_of_a_run",
    [req.Finish("f0", 1), req.CancelRun("f0"), req.AcknowledgeResults("f0", (0,)), req.Renew(())],
    ids=lambda each: each.type,
)
def test_more_words_than_a_party_may_say_are_refused(request_of_a_run: req.Request) -> None:
    world = world_of(words_per_s=10.0, words_burst=20)
    for _ in range(40):
        world.ask(request_of_a_run, BOB)
    world.run_for(0.1)
    assert 15 <= world.machine.state.counts["busy"] <= 25
    assert len(busy(world, BOB)) == (not isinstance(request_of_a_run, req.Renew))


def test_outcomes_that_are_said_again_count() -> None:
    world = world_of(asks_burst=20)
    world.submit(items=64)
    world.complete(items=64)
    before = world.machine.state.counts["busy"]
    for _ in range(20):
        world.ask(req.Resume("r1"))
    world.run_for(0.01)
    again = sum(len(each) for each in world.outcomes.values()) - 64
    assert again < 7 * 64
    assert world.machine.state.counts["busy"] - before > 12


def test_a_run_that_is_collected_again_and_again_counts_for_each_range_that_is_said() -> None:
    """Of a run with every second item fetched, 32 ranges each time."""
    world = world_of(asks_burst=20)
    world.submit(items=64)
    world.complete(items=64)
    world.ask(req.AcknowledgeResults("r1", tuple(range(0, 64, 2))))
    world.run_for(1.0)
    before = len(answers(world, CLIENT))
    for _ in range(20):
        world.ask(req.CollectRun("r1", world.manifest.digest))
    world.run_for(0.01)
    told = [each for each in answers(world, CLIENT)[before:] if isinstance(each, req.Collected)]
    assert told[0].items == tuple((item, item) for item in range(1, 64, 2))
    assert len(told) == 7
    assert world.machine.state.counts["busy"] == 13


def test_a_long_run_that_is_collected_is_read_at_once() -> None:
    """Its results are one range, and hold nothing up."""
    world = world_of(asks_burst=20)
    world.submit(items=100)
    world.complete(items=100)
    world.run_for(10.0)
    world.ask(req.CollectRun("r1", world.manifest.digest))
    world.ask(req.Resume("r1"))
    world.run_for(2.0)
    assert world.outcomes["r1", 99] == ["result", "result"]
    assert not world.machine.state.counts["busy"]


def test_a_run_costs_the_same_to_collect_however_many_results_it_has() -> None:

    def calls_with(count: int) -> int:
        world = world_of()
        world.submit(items=count)
        world.complete(items=count)
        asked = ev.RequestArrived(CLIENT, req.CollectRun("r1", world.manifest.digest))
        return count_calls(lambda: world.machine.handle(asked, world.now))

    assert calls_with(100) <= 1.5 * calls_with(10)


def test_stray_inputs_are_answered_no_more_often_than_words() -> None:
    world = world_of(words_burst=20, words_per_s=10.0)
    for item in range(200):
        world.feed("nobody", item)
    world.run_for(0.1)
    assert len(answers(world, CLIENT)) <= 21
    assert world.machine.state.counts["stray_input"] == 200


def test_plans_that_are_searched_for_one_party_are_few() -> None:
    world = world_of()
    world._do_SearchPlan = lambda each: None  # none is ever answered
    for index in range(6):
        world.ask(req.RequestPlan(f"q{index}", "tiny"), BOB)
    world.run_for(0.1)
    assert len(world.instructions(ins.SearchPlan)) == 4
    assert [each.request for each in busy(world, BOB)] == ["q4", "q5"]


def test_a_users_inputs_take_no_more_than_its_share_of_the_disk() -> None:
    bound = 4096 + tiny_manifest().cuts[0].bound_nbytes
    world = World(
        tiny_manifest(), OrchestratorOptions(input_spool_nbytes=8 * bound, user_spool_share=0.5)
    ).begin()
    for index in range(3):
        world.submit(f"b{index}", items=9, party=f"clients/bob/s{index}")
    world.run_for(0.2)
    taken = dict(world.machine.state.budget.taken_nbytes)
    assert taken["bob"] <= (4 + 2) * bound  # each run may always have one
    world.submit("r1", items=9)
    world.run_for(0.2)
    assert world.machine.state.budget.taken_nbytes["ann"] >= bound


def test_the_smallest_inputs_count_for_what_is_known_of_them() -> None:
    bound = 4096 + tiny_manifest().cuts[0].bound_nbytes
    world = World(tiny_manifest(), OrchestratorOptions(input_spool_nbytes=8 * bound)).begin()
    world.submit("b0", items=1000, party=BOB)
    world.run_for(1.0)
    (run,) = world.machine.state.runs.values()
    assert len(run.items) <= 4 * bound / 4096
    assert run.spooled_nbytes == 4096 * len(run.items)
