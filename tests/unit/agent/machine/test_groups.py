"""Short tasks are executed several in one go; each is a task by itself all the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, Bench, head, partition, route
from wire.elements import Element
from wire.frame_head import TensorHead
from wire.ids import ActivationId, TaskId
from wire.memory import streamed_need
from wire.messages.assignment import BatchTerms, PartitionAssignment
from wire.messages.commands import Cancel, Send
from wire.messages.events import TaskDone, TaskFailed

A = partition(0, 1)
LIMITS = AgentLimits(gather_s=0.0, gather_busy_s=0.0, group_s=0.5, group_tasks=4)
SHORT_S = 0.1


def serving(limits: AgentLimits = LIMITS, hold_nbytes: int = 1 << 30) -> Bench:
    """A first task has shown how long one takes, a second runs, and eight wait."""
    bench = Bench(replace(CAPABILITIES, hold_nbytes=hold_nbytes), limits)
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(100)
    end(bench, bench.running)
    bench.arrive(101)
    for item in range(8):
        bench.arrive(item)
    return bench


def end(bench: Bench, task: TaskId, compute_s: float = SHORT_S) -> list[told.Instruction]:
    made = head(task.item, task.last + 1, run=task.run, attempt=task.attempt, nbytes=400)
    return bench.do(happened.TaskExecuted(bench.number, task, made, 0.0, compute_s, 0.0, ()))


def group(bench: Bench) -> list[int]:
    return [each.task.item for each in bench.the_last(told.Execute).group]


def test_what_waits_runs_in_one_go_and_a_lone_input_by_itself() -> None:
    bench = serving()
    end(bench, bench.running)
    assert group(bench) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("limits", "count"),
    [
        (replace(LIMITS, group_s=0.25), 2),
        (replace(LIMITS, group_s=0.05), 1),
        (replace(LIMITS, group_tasks=3), 3),
    ],
)
def test_a_group_has_a_limit_in_time_and_in_number(limits: AgentLimits, count: int) -> None:
    bench = serving(limits)
    end(bench, bench.running)
    assert len(group(bench)) == count


def test_what_was_never_measured_runs_alone() -> None:
    bench = Bench(limits=LIMITS)
    bench.connect()
    bench.assign(A)
    for item in range(4):
        bench.arrive(item)
    bench.fetch_all()
    bench.ready(A)
    assert group(bench) == [0]


def test_a_streamed_partition_runs_one_at_a_time() -> None:
    budget_nbytes = streamed_need(A.segments)
    bench = Bench(replace(CAPABILITIES, memory_budget_nbytes=budget_nbytes), LIMITS)
    bench.connect()
    bench.assign(A)
    bench.fetch_all()
    bench.ready(A, streamed=True)
    for item in range(3):
        bench.arrive(item)
    end(bench, bench.running)
    assert group(bench) == [1]


def test_a_group_takes_no_more_than_its_outputs_have_room() -> None:
    """What is reserved for each is the largest that it may make."""
    output = A.emits_nbytes + LIMITS.frame_overhead_nbytes
    inputs = 10 * 500 + 400
    bench = serving(hold_nbytes=inputs + 2 * output)
    end(bench, bench.running)
    assert len(group(bench)) == 2


def test_each_is_answered_by_itself_and_the_slot_is_free_after_the_last() -> None:
    bench = serving()
    end(bench, bench.running)
    first, *rest = [each.task for each in bench.the_last(told.Execute).group]
    end(bench, first)
    assert bench.the_last(told.SendFrame).activation == ActivationId("r", 0, 2)
    assert bench.all_last(told.Execute) == []
    bench.do(happened.ExecutionFailed(bench.number, rest[0], "compute_failed", "bad shape"))
    assert bench.reported(TaskFailed)[-1].task == rest[0]
    for task in rest[1:]:
        end(bench, task)
    assert group(bench) == [4, 5, 6, 7]


def test_several_answers_in_one_turn_are_sent_and_told_together() -> None:
    bench = serving()
    end(bench, bench.running)
    tasks = [each.task for each in bench.the_last(told.Execute).group]
    answers = [
        happened.TaskExecuted(bench.number, task, head(task.item, 2), 0.0, 0.0, 0.0, (), 100.0)
        for task in tasks
    ]
    done = bench.machine.handle_all(answers, bench.now)
    bench.machine.validate()
    sends = [each.activation.item for each in done if isinstance(each, told.SendFrame)]
    (batch,) = [each.batch for each in done if isinstance(each, told.PublishEvents)]
    assert sends == [0, 1, 2, 3]
    assert [each.task.item for each in batch.events if isinstance(each, TaskDone)] == [0, 1, 2, 3]
    (following,) = [each for each in done if isinstance(each, told.Execute)]
    assert [each.task.item for each in following.group] == [4, 5, 6, 7]


def test_one_that_takes_the_partition_with_it_leaves_the_others_waiting() -> None:
    bench = serving()
    end(bench, bench.running)
    first, second, third, _ = [each.task for each in bench.the_last(told.Execute).group]
    bench.command(Cancel("r", (third.item,)))
    bench.arrive(second.item, attempt=1)
    bench.do(happened.ExecutionFailed(bench.number, first, "blob_corrupt", "rotten", True))
    assert [each.task for each in bench.reported(TaskFailed)] == [first]
    held = bench.machine._agent.held.inputs
    assert held[second.needs].life.state == "waiting"
    assert held[second.needs].head.attempt == 1
    assert third.needs not in held
    forgotten = [each.activation for each in bench.all_last(told.ForgetFrame)]
    assert sorted(forgotten) == sorted([first.needs, third.needs])


def test_at_the_limit_only_the_one_that_was_computed_counts_as_never_answered() -> None:
    bench = serving(replace(LIMITS, execute_floor_s=5.0, patience=1.0))
    end(bench, bench.running)
    tasks = [each.task for each in bench.the_last(told.Execute).group]
    end(bench, tasks[0])
    while not bench.reported(TaskFailed):
        bench.wait(1.0)
    assert [each.task for each in bench.reported(TaskFailed)] == [tasks[1]]


def test_an_output_of_a_group_can_be_asked_for_before_it_is_made() -> None:
    bench = serving()
    end(bench, bench.running)
    tasks = [each.task for each in bench.the_last(told.Execute).group]
    bench.command(Send("r", 2, (tasks[3].item,), "other"))
    for task in tasks:
        end(bench, task)
    assert told.SendFrame(tasks[3].makes, "other") in bench.told


# --- computed in one call ---------------------------------------------------------------------

LONG_S = 2.0
TOGETHER = replace(A, batch=BatchTerms(rows=8))


def serving_long(assigned: PartitionAssignment = TOGETHER) -> Bench:
    """One task takes longer than a group of short ones may; another runs."""
    bench = Bench(limits=LIMITS)
    bench.serve(assigned, routes=(route(2, "next"),))
    bench.arrive(100)
    end(bench, bench.running, LONG_S)
    bench.arrive(101)
    return bench


def wait(bench: Bench, item: int, batch: int = 3, length: int = 5, attempt: int = 0) -> None:
    tensors = (TensorHead("x", Element.FLOAT, (1, length)),)
    frame = replace(head(item, attempt=attempt), batch=batch, tensors=tensors)
    bench.do(happened.FrameArrived(frame, "orchestrator"))


def test_long_tasks_that_may_go_in_one_call_are_a_group_as_large_as_was_asked_for() -> None:
    bench = serving_long()
    for item in range(5):
        wait(bench, item)
    end(bench, bench.running, LONG_S)
    assert group(bench) == [0, 1, 2]


def test_long_tasks_of_another_size_or_of_a_partition_without_terms_run_alone() -> None:
    bench = serving_long()
    for item, length in enumerate((5, 6, 6)):
        wait(bench, item, length=length)
    end(bench, bench.running, LONG_S)
    assert group(bench) == [0]
    bench = serving_long(A)
    for item in range(3):
        wait(bench, item)
    end(bench, bench.running, LONG_S)
    assert group(bench) == [0]


def test_what_comes_again_runs_alone_since_it_may_have_ended_a_device() -> None:
    bench = serving_long()
    for item in range(3):
        wait(bench, item, attempt=1)
    end(bench, bench.running, LONG_S)
    assert group(bench) == [0]
