"""Orders that are old, that come again, or that are not the desk's."""

from __future__ import annotations

from edge_agent.machine.connection.connecting import UNHEARD_S
from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from tests.support.agent_bench import Bench, partition, route
from wire.ids import ActivationId
from wire.messages.commands import Command, CommandBatch, Ping, Release
from wire.messages.events import Pong

A, B = partition(0, 1), partition(2, 3)


def restarted(generation: int) -> Bench:
    """After boots that obeyed this one."""
    bench = Bench(obeyed=generation)
    bench.connect()
    return bench


def numbered(bench: Bench, number: int, *commands: Command, generation: int = 1) -> None:
    bench.do(happened.CommandsArrived(CommandBatch(generation, commands, number)))


def pongs(bench: Bench) -> list[str]:
    return [pong.nonce for pong in bench.reported(Pong)]


def test_each_higher_generation_is_remembered_once() -> None:
    bench = Bench()
    bench.connect()
    bench.orchestrator(3)
    bench.assign(A, generation=3)
    bench.command(Ping("n"), generation=3)
    bench.command(Ping("m"), generation=4)
    remembered = [each.generation for each in bench.all_told(told.RememberGeneration)]
    assert remembered == [3, 4]


def test_after_a_restart_what_an_older_generation_assigned_is_refused() -> None:
    bench = restarted(5)
    bench.assign(A, generation=4)
    assert bench.machine.assignment is None
    assert not bench.fetching
    assert bench.machine.counts["stale_assignments"] == 1
    bench.assign(B, generation=5)
    assert bench.machine.assignment is not None


def test_what_an_older_generation_assigned_is_refused_once_a_newer_one_was_heard() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A, generation=1)
    bench.orchestrator(2)
    bench.assign(B, generation=1)
    assert bench.machine.assignment is not None
    assert bench.machine.assignment.partitions == (A,)
    bench.assign(B, generation=2)
    assert bench.machine.assignment.partitions == (B,)


def test_after_a_restart_commands_of_an_older_generation_are_refused() -> None:
    bench = restarted(5)
    bench.command(Ping("old"), generation=4)
    bench.command(Ping("new"), generation=5)
    assert pongs(bench) == ["new"]
    assert bench.machine.counts["stale_commands"] == 1


def test_a_desk_of_an_older_journal_hears_which_generation_is_obeyed() -> None:
    bench = restarted(5)
    assert bench.the_last(told.PublishResidency).residency.least_generation == 5
    bench.orchestrator(3)
    assert bench.the_last(told.PublishResidency).residency.least_generation == 5


def test_a_batch_that_comes_again_is_not_obeyed_again() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2),))
    bench.arrive(0)
    numbered(bench, 1, Release("r", 2, (0,)))
    bench.executed(bench.running)
    numbered(bench, 1, Release("r", 2, (0,)))
    assert not bench.all_told(told.ForgetFrame) or all(
        each.side == "input" for each in bench.all_told(told.ForgetFrame)
    )
    assert bench.machine.counts["stale_commands"] == 1
    numbered(bench, 2, Release("r", 2, (0,)))
    assert told.ForgetFrame(ActivationId("r", 0, 2), "output") in bench.last


def test_a_batch_that_one_with_a_higher_number_has_followed_is_old() -> None:
    bench = Bench()
    bench.connect()
    for number, nonce in ((1, "a"), (4, "b"), (3, "c"), (5, "d")):
        numbered(bench, number, Ping(nonce))
    assert pongs(bench) == ["a", "b", "d"]


def test_numbers_begin_anew_with_a_generation() -> None:
    bench = Bench()
    bench.connect()
    numbered(bench, 9, Ping("a"), generation=1)
    numbered(bench, 1, Ping("b"), generation=2)
    numbered(bench, 10, Ping("c"), generation=1)
    assert pongs(bench) == ["a", "b"]


def test_batches_without_a_number_are_all_obeyed() -> None:
    bench = Bench()
    bench.connect()
    for nonce in "ab":
        numbered(bench, 0, Ping(nonce))
    assert pongs(bench) == ["a", "b"]


def test_what_is_not_the_desks_is_counted_by_what_is_wrong_with_it() -> None:
    bench = Bench()
    bench.connect()
    for fault in ("forged", "unsigned", "forged"):
        bench.do(happened.OrderRefused(fault))
    counts = bench.machine.counts
    assert (counts["forged_orders"], counts["unsigned_orders"]) == (2, 1)


def test_people_see_why_an_agent_that_hears_no_order_of_its_desk_obeys_nobody() -> None:
    bench = Bench()
    bench.connect()
    bench.do(happened.OrderRefused("forged"))
    state = bench.the_last(told.PublishState).state
    assert state.status == "online"
    assert state.reason is not None
    assert "crowdpipe device add phone" in state.reason
    bench.do(happened.OrderRefused("forged"))
    assert not bench.all_last(told.PublishState)
    bench.orchestrator(1)
    assert bench.the_last(told.PublishState).state.reason is None


def test_one_that_hears_its_desk_does_not_complain_of_others() -> None:
    bench = Bench()
    bench.connect()
    bench.orchestrator(1)
    bench.do(happened.OrderRefused("forged"))
    assert not bench.all_last(told.PublishState)
    bench.now += UNHEARD_S
    bench.do(happened.OrderRefused("forged"))
    assert bench.the_last(told.PublishState).state.reason is not None
