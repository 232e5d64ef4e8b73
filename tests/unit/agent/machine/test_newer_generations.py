"""A newer generation may have an older journal: what was over may be asked for again."""

from __future__ import annotations

from edge_agent.machine.records import instructions as told
from tests.support.agent_bench import Bench, partition, route
from wire.ids import ActivationId
from wire.messages.commands import Cancel, Send
from wire.messages.events import FrameDropped, TaskDone

A = partition(0, 1)


def serving() -> Bench:
    bench = Bench()
    bench.serve(A, routes=(route(2, "next"),))
    return bench


def test_what_was_cancelled_is_refused_until_a_newer_generation_asks_for_it() -> None:
    bench = serving()
    bench.command(Cancel("r", (0,)), Cancel("s"))
    bench.arrive(0)
    bench.arrive(0, run="s")
    assert [drop.kind for drop in bench.reported(FrameDropped)] == ["cancelled"] * 2
    bench.orchestrator(2)
    bench.arrive(0)
    bench.arrive(0, run="s")
    assert bench.running.run == "r"
    bench.executed(bench.running)
    assert bench.running.run == "s"


def test_what_was_done_is_done_once_more_for_a_newer_generation() -> None:
    bench = serving()
    bench.arrive(0)
    bench.executed(bench.running)
    bench.command(Cancel("r", (0,)))
    bench.orchestrator(2)
    bench.arrive(0)
    bench.executed(bench.running)
    assert len(bench.reported(TaskDone)) == 2


def test_an_input_that_comes_anew_while_its_cancelled_task_runs_is_kept_and_computed() -> None:
    bench = serving()
    bench.arrive(0, sender="first")
    bench.command(Cancel("r", (0,)))
    bench.orchestrator(2)
    bench.arrive(0)
    bench.executed(bench.running)
    forgotten = bench.all_last(told.ForgetFrame)
    name = ActivationId("r", 0, 0)
    assert told.ForgetFrame(name, "input", "first") in forgotten
    assert told.ForgetFrame(name, "input") not in forgotten
    assert bench.all_last(told.Execute)
    bench.executed(bench.running)
    assert len(bench.reported(TaskDone)) == 1


def test_what_a_cancelled_task_makes_is_not_promised_to_a_newer_generation() -> None:
    bench = serving()
    bench.arrive(0)
    bench.command(Cancel("r", (0,)))
    bench.command(Send("r", 2, (0,), "other"), generation=2)
    assert bench.reported(FrameDropped)[0].kind == "not_held"
