"""Loads, evictions and tasks that ONNX Runtime never answers: said, drained, ended, in time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, MIB, Bench, head, partition, route
from wire.ids import ActivationId
from wire.messages.commands import Send
from wire.messages.events import TaskDone, TaskFailed

A, B = partition(0, 1), partition(2, 3)
ROOMY = replace(CAPABILITIES, disk_budget_nbytes=100 * MIB)
LIMITS = AgentLimits(gather_s=0.0, restate_s=1e6)


def until(bench: Bench, kind: type[told.Instruction], limit_s: float = 2000.0) -> float:
    """Wake it whenever it asks, until it says that; the seconds that took."""
    began = bench.now
    while not bench.all_last(kind):
        wake = bench.machine.wake_at()
        assert wake is not None, "it waits for nothing"
        assert wake - began <= limit_s, "it waits for too long"
        bench.wait(wake - bench.now)
    return bench.now - began


def state(bench: Bench) -> str:
    return bench.all_told(told.PublishState)[-1].state.status


def test_a_task_that_never_ends_fails_and_the_agent_drains_then_gives_up() -> None:
    bench = Bench(limits=LIMITS)
    bench.serve(A)
    bench.arrive(0)
    until(bench, told.PublishState)
    failed = bench.reported(TaskFailed)[0]
    assert (failed.task, failed.kind) == (bench.running, "timed_out")
    assert "ONNX Runtime to run r/0[0-1]#0" in failed.reason
    failure = bench.residency(A).failure
    assert failure is not None
    assert (failure.kind, state(bench)) == ("timed_out", "draining")
    assert until(bench, told.GiveUp) == pytest.approx(LIMITS.stop_s)
    assert state(bench) == "offline"
    assert bench.the_last(told.GiveUp) == told.GiveUp("timed_out", failure.reason)
    assert bench.machine.wake_at() is None


def test_a_load_that_never_ends_fails_its_partition_and_ends_the_agent() -> None:
    bench = Bench(limits=LIMITS)
    bench.connect()
    bench.assign(A)
    bench.fetch_all()
    assert bench.all_last(told.Load)
    until(bench, told.GiveUp)
    failure = bench.residency(A).failure
    assert failure is not None
    assert (failure.kind, "to load" in failure.reason) == ("timed_out", True)


def test_an_eviction_that_never_ends_lets_nothing_else_in_and_ends_the_agent() -> None:
    bench = Bench(limits=LIMITS)
    bench.serve(A)
    bench.assign(B)
    bench.fetch_all()
    loads = len(bench.all_told(told.Load))
    until(bench, told.GiveUp)
    assert len(bench.all_told(told.Load)) == loads
    assert "give up" in bench.the_last(told.GiveUp).reason


def test_what_is_held_can_be_sent_until_the_agent_ends() -> None:
    bench = Bench(limits=LIMITS)
    bench.serve(A)
    bench.arrive(0)
    bench.executed(bench.running)
    bench.arrive(1)
    until(bench, told.PublishState)
    bench.command(Send("r", 2, (0,), "next"))
    assert bench.the_last(told.SendFrame) == told.SendFrame(ActivationId("r", 0, 2), "next")
    bench.arrive(2)
    assert bench.all_last(told.Execute) == []


def test_an_answer_after_its_limit_is_known_by_its_number_and_changes_nothing() -> None:
    bench = Bench(limits=LIMITS)
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(0)
    until(bench, told.PublishState)
    bench.executed(bench.running)
    assert bench.machine.counts["late_answers"] == 1
    assert bench.reported(TaskDone) == []
    assert bench.all_last(told.SendFrame) == []
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(ActivationId("r", 0, 2), "output")
    until(bench, told.GiveUp)


def test_an_answer_in_time_ends_the_limit() -> None:
    bench = Bench(limits=LIMITS)
    bench.serve(A)
    bench.arrive(0)
    bench.now += LIMITS.execute_floor_s - 1
    bench.executed(bench.running)
    bench.wait(1000.0)
    assert bench.reported(TaskFailed) == []
    assert state(bench) == "online"


def test_an_answer_to_work_of_before_is_late_although_the_same_task_runs_again() -> None:
    bench = Bench(limits=LIMITS)
    bench.serve(A)
    bench.arrive(0)
    old, task = bench.number, bench.running
    bench.failed(task)
    bench.arrive(0)
    assert bench.running == task
    emitted = head(0, 2, nbytes=400)
    bench.do(happened.TaskExecuted(old, task, emitted, 0.0, 0.0, 0.0, ()))
    assert (bench.machine.counts["late_answers"], bench.reported(TaskDone)) == (1, [])
    bench.executed(task)
    assert len(bench.reported(TaskDone)) == 1


def test_time_in_which_the_process_stood_still_does_not_count() -> None:
    bench = Bench(limits=LIMITS)
    bench.serve(A)
    bench.arrive(0)
    bench.wait(8 * 3600.0)
    assert bench.reported(TaskFailed) == []
    assert until(bench, told.PublishState) > LIMITS.execute_floor_s - 10


def test_a_stop_that_was_asked_for_tells_the_limit_if_that_passes_meanwhile() -> None:
    bench = Bench(limits=AgentLimits(gather_s=0.0, stop_s=1000.0))
    bench.serve(A)
    bench.arrive(0)
    bench.do(happened.StopAsked("shutdown"))
    until(bench, told.GiveUp)
    assert bench.the_last(told.PublishState).state.reason == "shutdown"


def test_limits_grow_with_what_there_is_to_do_and_with_what_it_took_before() -> None:
    def limit_of_a_task(bench: Bench) -> float:
        bench.arrive(9)
        return until(bench, told.PublishState)

    plain, slow = Bench(limits=LIMITS), Bench(limits=LIMITS)
    for bench in (plain, slow):
        bench.serve(A)
    slow.arrive(0)
    emitted = head(0, 2)
    slow.do(happened.TaskExecuted(slow.number, slow.running, emitted, 0.0, 30.0, 0.0, (30.0,)))
    assert limit_of_a_task(plain) < LIMITS.execute_floor_s + 1
    assert limit_of_a_task(slow) == pytest.approx(LIMITS.execute_floor_s + 20 * 30.0)


def test_the_limit_of_a_load_follows_its_bytes() -> None:
    big = partition(0, 1, weight_nbytes=10 * MIB)
    took = {}
    for each in (A, big):
        bench = Bench(ROOMY, limits=LIMITS, cached={b.digest: b.nbytes for b in each.blobs})
        bench.connect()
        bench.assign(each)
        took[each.partition, each is big] = until(bench, told.PublishState)
    small_s, big_s = took.values()
    assert big_s - small_s == pytest.approx(20 * MIB / LIMITS.load_nbytes_per_s, rel=0.01)
