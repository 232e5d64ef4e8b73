"""Frames, tasks, routes and commands, rule by rule."""

from __future__ import annotations

from dataclasses import replace

from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, Bench, partition, route
from wire.ids import ActivationId, TaskId
from wire.messages.commands import Cancel, Open, Profile, Release, Send
from wire.messages.events import (
    FrameDropped,
    FrameReceived,
    Profiled,
    TaskDone,
    TaskFailed,
    TaskStarted,
)

A, B, C = partition(0, 1), partition(2, 3), partition(4, 5)
EXACT = AgentLimits(gather_s=0.0, frame_overhead_nbytes=0)  # frames are no larger than their bound


def name(item: int, cut: int, run: str = "r") -> ActivationId:
    return ActivationId(run, item, cut)


def test_a_frame_becomes_a_task_and_its_output_goes_to_the_dependent_of_its_item() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "b0", "b1"),))
    bench.arrive(3, attempt=2)
    task = bench.the_last(told.Execute).task
    assert task == TaskId("r", 3, 0, 1, 2)
    bench.now += 0.5
    bench.executed(task)
    assert bench.the_last(told.SendFrame) == told.SendFrame(name(3, 2), "b1")
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(name(3, 0), "input", "orchestrator")
    assert [type(event) for event in bench.events[-3:]] == [FrameReceived, TaskStarted, TaskDone]
    done = bench.reported(TaskDone)[0]
    assert (done.task, done.parked, done.input_nbytes, done.output_nbytes) == (
        task,
        False,
        500,
        400,
    )


def test_the_events_of_one_turn_go_in_one_batch() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    assert len(bench.the_last(told.PublishEvents).batch.events) == 2


def test_inputs_are_taken_as_they_came_whatever_their_run() -> None:
    """They were let in in turn: a run that began first may not overtake the others."""
    bench = Bench()
    bench.serve(A)
    bench.arrive(9, run="zz")
    for item, run in [(2, "zz"), (0, "aa"), (1, "zz"), (1, "aa")]:
        bench.arrive(item, run=run)
    order = []
    while bench.all_last(told.Execute) or not order:
        task = bench.running
        order.append((task.run, task.item))
        bench.executed(task)
    assert order == [("zz", 9), ("zz", 2), ("aa", 0), ("zz", 1), ("aa", 1)]


def test_an_output_without_a_dependent_is_parked_and_sent_when_the_list_is_filled() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2),))
    bench.arrive(0)
    bench.executed(bench.running)
    assert bench.all_last(told.SendFrame) == []
    assert bench.reported(TaskDone)[0].parked
    bench.assign(A, routes=(route(2, "late"),))
    assert bench.the_last(told.SendFrame) == told.SendFrame(name(0, 2), "late")
    bench.assign(A, routes=(route(2, "other"),))
    assert bench.all_last(told.SendFrame) == []


def test_a_repeated_frame_is_reported_again_and_computed_once() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(0)
    assert len(bench.reported(FrameReceived)) == 2
    assert bench.all_last(told.ForgetFrame) == []
    bench.executed(bench.running)
    bench.arrive(0)
    assert len(bench.reported(FrameReceived)) == 3
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(name(0, 0), "input", "orchestrator")
    assert len(bench.all_told(told.Execute)) == 1


def test_a_higher_attempt_is_computed_again_after_the_output_was_released() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(0)
    bench.executed(bench.running)
    bench.command(Release("r", 2, (0,)))
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(name(0, 2), "output")
    bench.arrive(0)
    assert bench.all_last(told.Execute) == []
    bench.arrive(0, attempt=1)
    assert bench.the_last(told.Execute).task.attempt == 1
    bench.executed(bench.running)
    assert bench.the_last(told.SendFrame).to == "next"


def test_a_higher_attempt_that_comes_while_the_lower_runs_is_computed_after_it() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(0)
    bench.arrive(0, attempt=1)
    bench.executed(bench.running)
    assert bench.all_last(told.ForgetFrame) == []
    assert bench.the_last(told.Execute).task.attempt == 1
    bench.executed(bench.running)
    assert [done.task.attempt for done in bench.reported(TaskDone)] == [0, 1]


def test_a_higher_attempt_gives_way_to_the_output_of_the_lower_one() -> None:
    bench = Bench(replace(CAPABILITIES, hold_nbytes=900), EXACT)
    bench.serve(replace(A, emits_nbytes=400), routes=(route(2, "next"),))
    bench.arrive(0)
    bench.arrive(0, attempt=1, nbytes=600)
    bench.executed(bench.running)
    drop = bench.reported(FrameDropped)[0]
    assert (drop.activation, drop.kind) == (name(0, 0), "too_large")
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(name(0, 0), "input", "orchestrator")
    assert bench.all_last(told.Execute) == []


def test_a_repeat_finished_under_another_range_is_computed_for_the_new_one() -> None:
    longer = partition(0, 3)
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.executed(bench.running)
    bench.assign(longer)
    bench.gone(A)
    bench.fetch_all()
    bench.ready(longer)
    bench.arrive(0)
    assert bench.the_last(told.Execute).task == TaskId("r", 0, 0, 3)


def test_a_barrier_holds_a_task_until_it_is_opened() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0, barrier=True)
    assert bench.all_last(told.Execute) == []
    bench.command(Open("r", 0, (0, 1)))
    assert bench.the_last(told.Execute).task.item == 0
    bench.executed(bench.running)
    bench.arrive(1, barrier=True)
    assert bench.the_last(told.Execute).task.item == 1


def test_the_deepest_partition_with_work_is_loaded_when_the_resident_has_none() -> None:
    bench = Bench()
    bench.serve(A, B, C)
    bench.arrive(0)
    bench.arrive(7, 2)
    bench.arrive(8, 4)
    assert bench.all_told(told.Unload) == []
    bench.executed(bench.running)
    assert bench.the_last(told.Unload).partition == A.partition
    bench.gone(A)
    assert bench.the_last(told.Load).assigned == C
    bench.ready(C)
    assert bench.the_last(told.Execute).task.item == 8
    bench.executed(bench.running)
    bench.gone(C)
    assert bench.the_last(told.Load).assigned == B


def test_without_work_anywhere_the_resident_partition_stays() -> None:
    bench = Bench()
    bench.serve(A, B)
    bench.arrive(0)
    bench.executed(bench.running)
    assert bench.all_told(told.Unload) == []


def test_two_partitions_of_one_device_hand_over_through_the_broker() -> None:
    bench = Bench()
    bench.serve(A, B, routes=(route(2, "phone"),))
    bench.arrive(0)
    bench.executed(bench.running)
    assert bench.the_last(told.SendFrame) == told.SendFrame(name(0, 2), "phone")
    bench.arrive(0, 2, sender="phone")
    assert bench.the_last(told.Unload).partition == A.partition
    bench.gone(A)
    bench.ready(B)
    assert bench.the_last(told.Execute).task == TaskId("r", 0, 2, 3)


def test_send_is_idempotent_and_says_what_is_not_held() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.executed(bench.running)
    for _ in range(2):
        bench.command(Send("r", 2, (0,), "b"))
        assert bench.the_last(told.SendFrame) == told.SendFrame(name(0, 2), "b")
    bench.command(Send("r", 2, (1,), "b"))
    drop = bench.reported(FrameDropped)[0]
    assert (drop.activation, drop.kind) == (name(1, 2), "not_held")


def test_send_of_what_is_still_computed_waits_for_it_and_beats_the_route() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "listed"),))
    bench.arrive(0)
    bench.arrive(1)
    bench.command(Send("r", 2, (0, 1), "wished"))
    assert bench.reported(FrameDropped) == []
    bench.executed(bench.running)
    assert bench.the_last(told.SendFrame).to == "wished"
    bench.executed(bench.running)
    assert bench.the_last(told.SendFrame).to == "wished"


def test_a_send_that_waits_gives_way_to_a_newer_assignment() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "listed"),))
    bench.arrive(0)
    bench.command(Send("r", 2, (0,), "wished"))
    bench.assign(A, routes=(route(2, "newer"),))
    bench.executed(bench.running)
    assert bench.the_last(told.SendFrame).to == "newer"


def test_cancel_forgets_inputs_and_outputs_and_lets_what_runs_end_silently() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "next"),))
    for item in range(3):
        bench.arrive(item)
    bench.executed(bench.running)
    bench.command(Cancel("r"))
    assert set(bench.all_last(told.ForgetFrame)) == {
        told.ForgetFrame(name(2, 0), "input", "orchestrator"),
        told.ForgetFrame(name(0, 2), "output"),
    }
    done = len(bench.reported(TaskDone))
    bench.executed(bench.running)
    assert set(bench.all_last(told.ForgetFrame)) == {
        told.ForgetFrame(name(1, 0), "input"),
        told.ForgetFrame(name(1, 2), "output"),
    }
    assert bench.all_last(told.SendFrame) == []
    assert len(bench.reported(TaskDone)) == done
    bench.arrive(4)
    assert bench.reported(FrameDropped)[0].kind == "cancelled"


def test_cancelling_one_item_leaves_the_others() -> None:
    bench = Bench()
    bench.serve(A)
    for item in range(3):
        bench.arrive(item)
    bench.command(Cancel("r", (1,)))
    bench.executed(bench.running)
    assert bench.running.item == 2


def test_a_failed_task_is_reported_and_the_next_one_runs() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1)
    bench.failed(bench.running)
    failed = bench.reported(TaskFailed)[0]
    assert (failed.task.item, failed.kind) == (0, "compute_failed")
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(name(0, 0), "input", "orchestrator")
    assert bench.the_last(told.Execute).task.item == 1
    bench.arrive(0)
    bench.executed(bench.running)
    assert bench.running.item == 0


def test_a_fatal_failure_takes_the_partition_out_and_its_other_tasks_wait() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1)
    bench.failed(bench.running, fatal=True)
    assert bench.residency(A).status == "failed"
    assert bench.all_last(told.Execute) == []
    bench.assign(A)
    assert bench.the_last(told.Load).assigned == A
    bench.ready(A)
    assert bench.the_last(told.Execute).task.item == 1


def test_a_profile_answers_with_what_was_measured() -> None:
    bench = Bench()
    bench.serve(A)
    bench.command(Profile(A.partition))
    assert bench.reported(Profiled) == []
    bench.arrive(0)
    bench.executed(bench.running)
    bench.command(Profile(A.partition))
    assert bench.reported(Profiled)[0].segment_s == (0.1,)
