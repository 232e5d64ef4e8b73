"""Running tasks, and what follows when they end: the output is held and sent, the input removed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edge_agent.machine.frames import room
from edge_agent.machine.frames.arrivals import forget_input
from edge_agent.machine.frames.dropping import drop
from edge_agent.machine.frames.routes import dependent_of, forward
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import ExecutionFailed, TaskExecuted
from edge_agent.machine.records.held_frames import HeldInput, HeldOutput
from edge_agent.machine.records.instructions import Execute, ForgetFrame, TaskInput
from edge_agent.machine.records.partitions import Partition
from edge_agent.machine.records.slot import Running
from edge_agent.machine.records.transitions import life_of
from wire.errors import InvalidInput
from wire.frame_head import TensorHead
from wire.ids import TaskId
from wire.messages.events import TaskDone, TaskFailed, TaskStarted
from wire.messages.residency import Failure


def start(agent: Agent, record: Partition, entry: HeldInput, now: float) -> Execute:
    """Begin its task, and with it those behind it that wait already and have room, if they are
    short or may go with it in one call."""
    group = [_begin(agent, record, entry, now)]
    most = short = agent.pace.group_tasks(record)
    if record.assigned.batch and not entry.head.comes_again:  # that may be what ended a device
        most = max(short, min(agent.limits.group_tasks, entry.head.batch))
    while len(group) < most:
        following = agent.held.next_startable(record.key)
        if following is None or not room.fits_output(agent, record, following, len(group)):
            break
        if len(group) >= short and not _goes_with(entry, following):
            break
        group.append(_begin(agent, record, following, now))
    limit_s = agent.pace.execute_limit_s(record, len(group))
    number = agent.slot.execute(group, now, limit_s)
    _tell_start(agent, now)
    inputs = tuple(TaskInput(each.task, each.sender) for each in group)
    return Execute(number, record.assigned, inputs)


def _goes_with(entry: HeldInput, following: HeldInput) -> bool:
    head, other = entry.head, following.head
    return (head.tensors, head.batch) == (other.tensors, other.batch) and not other.comes_again


def _begin(agent: Agent, record: Partition, entry: HeldInput, now: float) -> Running:
    task = task_of(record, entry)
    agent.held.move_input(entry, "running", now, "its partition is free")
    return Running(task, entry.sender, entry.arrived_at)


def _tell_start(agent: Agent, now: float) -> None:
    """Of the task whose turn it is now: if the process ends over it, that one is to blame."""
    task = agent.slot.task
    if task is None:
        return
    agent.report(TaskStarted(task, now))
    if agent.slot.tasks <= agent.limits.told_starts:
        agent.log.press()


def task_of(record: Partition, entry: HeldInput) -> TaskId:
    name = entry.name
    return TaskId(name.run, name.item, record.id.first, record.id.last, entry.head.attempt)


def task_executed(agent: Agent, event: TaskExecuted, now: float) -> None:
    task = event.task
    occupant, running = agent.slot.executed(task)
    record = agent.partitions.get(occupant.partition)
    all_s = event.decode_s + event.compute_s + event.encode_s
    agent.pace.learn_task(record, occupant, event.compute_s, all_s)
    if record:
        record.segment_s = event.segment_s
    entry = _still_wanted(agent, running)
    if entry is None:
        agent.counts["cancelled_outputs"] += 1
        if task.makes not in agent.held.outputs:
            agent.instruct(ForgetFrame(task.makes, "output"))
        _tell_start(agent, now)
        return
    output = _hold(agent, event, now)
    to = _route(agent, output, now)
    agent.report(_done(agent, event, entry, running, output, to))
    agent.finished.put((task.run, task.item, task.first, task.last), task.attempt)
    _leave(agent, entry, "done", now)
    _tell_start(agent, now)


def execution_failed(agent: Agent, event: ExecutionFailed, now: float) -> None:
    occupant, running = agent.slot.executed(event.task)
    if event.fatal:
        _ruined(agent, event, now)
    # Where it failed is no news to whoever gave the wrong input.
    where = "" if event.kind == InvalidInput.kind else f"{occupant.partition}: "
    failure = Failure(event.kind, f"{where}{event.reason}")
    task_failed(agent, running, failure, now, event.made)
    _tell_start(agent, now)


def task_failed(
    agent: Agent, running: Running, failure: Failure, now: float, made: tuple[TensorHead, ...] = ()
) -> None:
    """Report it, unless the task was cancelled while it ran."""
    entry = _still_wanted(agent, running)
    if entry is None:
        agent.counts["cancelled_outputs"] += 1
        return
    agent.counts[f"failed_{failure.kind}"] += 1
    agent.report(TaskFailed(running.task, failure.kind, failure.reason, made))
    _leave(agent, entry, "failed", now)


def wait_again(agent: Agent, rest: Iterable[Running], now: float) -> None:
    """These were begun in a group and not reached: their inputs wait as before."""
    for running in rest:
        entry = _still_wanted(agent, running)
        if entry is None:
            continue
        if entry.again is not None:
            agent.held.replace_head(entry, entry.again)
            entry.again = None
        to = "waiting" if agent.partitions.taking(entry.key) else "early"
        agent.held.move_input(entry, to, now, "an earlier one of its group took the partition away")


def _still_wanted(agent: Agent, running: Running) -> HeldInput | None:
    """The input of a task that just ended; None if it was cancelled while it ran. It may have come
    anew since: then that copy waits, and stays."""
    needs = running.task.needs
    entry = agent.held.inputs.get(needs)
    if entry is None:
        agent.forget_input(needs)
    elif entry.life.state == "running":
        return entry
    elif entry.sender != running.sender:
        agent.forget_input(needs, running.sender)
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
    agent: Agent,
    event: TaskExecuted,
    entry: HeldInput,
    running: Running,
    output: HeldOutput,
    to: str | None,
) -> TaskDone:
    began_s = agent.slot.since if event.began_s is None else event.began_s
    return TaskDone(
        task=event.task,
        at_s=agent.now,
        waited_s=max(0.0, began_s - running.arrived_at),
        decode_s=event.decode_s,
        compute_s=event.compute_s,
        encode_s=event.encode_s,
        input_nbytes=entry.head.nbytes,
        output_nbytes=output.head.nbytes,
        output_raw_nbytes=output.head.raw_nbytes,
        parked=to is None,
        to=to,
        started_s=began_s,
    )


def _ruined(agent: Agent, event: ExecutionFailed, now: float) -> None:
    """The partition is unusable and left memory. Its inputs stay: the orchestrator re-plans."""
    record = agent.occupant()
    assert agent.slot.partition is not None
    wait_again(agent, agent.slot.give_back(), now)
    agent.slot.vacated(agent.slot.partition, None)
    if record is None:
        return
    agent.partitions.fail(record, Failure(event.kind, event.reason), now)
    if not record.listed:
        agent.partitions.remove(record)
