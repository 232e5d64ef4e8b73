"""Running tasks, and what follows when they end: the output is held and sent, the input removed."""

from __future__ import annotations

from dataclasses import replace

from edge_agent.machine.frames import room
from edge_agent.machine.frames.arrivals import forget_input
from edge_agent.machine.frames.dropping import drop
from edge_agent.machine.frames.routes import dependent_of, forward
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import ExecutionFailed, TaskExecuted
from edge_agent.machine.records.held_frames import HeldInput, HeldOutput
from edge_agent.machine.records.instructions import Execute, ForgetFrame
from edge_agent.machine.records.partitions import Partition
from edge_agent.machine.records.transitions import life_of
from wire.errors import InvalidInput
from wire.frame_head import TensorHead
from wire.ids import TaskId
from wire.messages.events import TaskDone, TaskFailed, TaskStarted
from wire.messages.residency import Failure


def start(agent: Agent, record: Partition, entry: HeldInput, now: float) -> Execute:
    task = task_of(record, entry)
    agent.held.move_input(entry, "running", now, "its partition is free")
    limit_s = agent.pace.execute_limit_s(record)
    waited_s = max(0.0, now - entry.arrived_at)
    number = agent.slot.execute(task, entry.sender, waited_s, now, limit_s)
    agent.report(TaskStarted(task, now))
    if agent.slot.tasks <= agent.limits.told_starts:
        agent.log.press()
    return Execute(number, task, record.assigned, entry.sender)


def task_of(record: Partition, entry: HeldInput) -> TaskId:
    name = entry.name
    return TaskId(name.run, name.item, record.id.first, record.id.last, entry.head.attempt)


def task_executed(agent: Agent, event: TaskExecuted, now: float) -> None:
    task = event.task
    occupant = agent.slot.executed(task)
    record = agent.partitions.get(occupant.partition)
    agent.pace.learn_task(record, occupant, event.compute_s)
    if record:
        record.segment_s = event.segment_s
    entry = _still_wanted(agent, task)
    if entry is None:
        agent.counts["cancelled_outputs"] += 1
        if task.makes not in agent.held.outputs:
            agent.instruct(ForgetFrame(task.makes, "output"))
        return
    output = _hold(agent, event, now)
    to = _route(agent, output, now)
    agent.report(_done(agent, event, entry, output, to))
    agent.finished.put((task.run, task.item, task.first, task.last), task.attempt)
    _leave(agent, entry, "done", now)


def execution_failed(agent: Agent, event: ExecutionFailed, now: float) -> None:
    occupant = agent.slot.executed(event.task)
    if event.fatal:
        _ruined(agent, event, now)
    # Where it failed is no news to whoever gave the wrong input.
    where = "" if event.kind == InvalidInput.kind else f"{occupant.partition}: "
    failure = Failure(event.kind, f"{where}{event.reason}")
    task_failed(agent, event.task, failure, now, event.made)


def task_failed(
    agent: Agent, task: TaskId, failure: Failure, now: float, made: tuple[TensorHead, ...] = ()
) -> None:
    """Report it, unless the task was cancelled while it ran."""
    entry = _still_wanted(agent, task)
    if entry is None:
        agent.counts["cancelled_outputs"] += 1
        return
    agent.counts[f"failed_{failure.kind}"] += 1
    agent.report(TaskFailed(task, failure.kind, failure.reason, made))
    _leave(agent, entry, "failed", now)


def _still_wanted(agent: Agent, task: TaskId) -> HeldInput | None:
    """The input of a task that just ended; None if it was cancelled while it ran. It may have come
    anew since: then that copy waits, and stays."""
    entry = agent.held.inputs.get(task.needs)
    if entry is None:
        agent.instruct(ForgetFrame(task.needs, "input"))
    elif entry.life.state == "running":
        return entry
    elif entry.sender != agent.slot.sender:
        agent.instruct(ForgetFrame(task.needs, "input", agent.slot.sender))
    return None


def _leave(agent: Agent, entry: HeldInput, state: str, now: float) -> None:
    """Remove the input; unless it came again under a later attempt, which is queued now, or dropped
    with an event if the output took its room."""
    again = entry.again
    if again is None:
        forget_input(agent, entry, state, now)
        return
    agent.held.move_input(entry, state, now)
    agent.held.remove_input(entry)
    life = life_of("task", entry.name, "arrived", agent.cause, agent.now)
    successor = replace(entry, head=again, arrived_at=now, again=None, life=life)
    agent.held.add_input(successor)
    to = "waiting" if agent.partitions.taking(entry.key) else "early"
    agent.held.move_input(successor, to, now, "it came again while its earlier attempt ran")
    if room.lacking_nbytes(agent, 0) > 0:
        drop(agent, successor, "too_large", "its earlier attempt's output took its room", now)


def _hold(agent: Agent, event: TaskExecuted, now: float) -> HeldOutput:
    """If the same output is held already, the spool has overwritten it with the same bits."""
    name = event.task.makes
    before = agent.held.outputs.get(name)
    if before is not None:
        agent.held.move_output(before, "replaced", now)
        agent.held.remove_output(before)
    head = event.emitted
    if head.attempt != event.task.attempt:
        head = replace(head, attempt=event.task.attempt)
    output = HeldOutput(head, life_of("output", name, "made", agent.cause, agent.now))
    agent.held.add_output(output)
    return output


def _route(agent: Agent, output: HeldOutput, now: float) -> str | None:
    """Whom it goes to, None if it is parked. A `send` command that came before the output overrides
    the assignment's dependents, until a newer assignment arrives."""
    to = dependent_of(agent, output)
    requested = agent.requested_sends.pop(output.name)
    if requested is not None and requested[1] == agent.stamp:
        to = requested[0]
    if to is None:
        agent.held.move_output(output, "parked", now, "nobody is listed for it")
    else:
        forward(agent, output, to, now)
    return to


def _done(
    agent: Agent, event: TaskExecuted, entry: HeldInput, output: HeldOutput, to: str | None
) -> TaskDone:
    return TaskDone(
        task=event.task,
        at_s=agent.now,
        waited_s=agent.slot.waited_s,
        decode_s=event.decode_s,
        compute_s=event.compute_s,
        encode_s=event.encode_s,
        input_nbytes=entry.head.nbytes,
        output_nbytes=output.head.nbytes,
        output_raw_nbytes=output.head.raw_nbytes,
        parked=to is None,
        to=to,
    )


def _ruined(agent: Agent, event: ExecutionFailed, now: float) -> None:
    """The partition is unusable and left memory. Its inputs stay: the orchestrator re-plans."""
    record = agent.occupant()
    assert agent.slot.partition is not None
    agent.slot.vacated(agent.slot.partition, None)
    if record is None:
        return
    agent.partitions.fail(record, Failure(event.kind, event.reason), now)
    if not record.listed:
        agent.partitions.remove(record)
