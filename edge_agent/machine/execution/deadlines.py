"""Loading, running and evicting have a limit in time; this is what happens at it.

A native call that never returns cannot be stopped from within its process, and nothing else may
use the memory meanwhile. So at the limit the partition fails as `timed_out`, and with it the task
that was being computed; the agent drains for `stop_s`, in which the outputs that it holds can still
be sent, publishes `offline` and ends with that error. Its supervisor starts it again (ADR 10).
Loads, evictions and tasks are numbered: an answer that comes after its limit carries an outdated
number, is counted and changes nothing. Time in which the whole process was suspended (a phone in
Doze, a stopped process) does not count.
"""

from __future__ import annotations

from edge_agent.machine.connection.connecting import begin_to_stop
from edge_agent.machine.execution.tasks import task_failed, wait_again
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import Answer, TaskExecuted
from edge_agent.machine.records.instructions import ForgetFrame
from wire.errors import TimedOut
from wire.messages.residency import Failure

SLEPT_S = 10.0  # woken so much later than asked for: this process was suspended


def is_late(agent: Agent, event: Answer) -> bool:
    """Whether what is answered was given up before; then it is counted."""
    if event.number >= agent.slot.number:
        return False
    agent.counts["late_answers"] += 1
    if isinstance(event, TaskExecuted) and event.task.makes not in agent.held.outputs:
        agent.instruct(ForgetFrame(event.task.makes, "output"))
    return True


def excuse_suspension(agent: Agent, due_at: float | None, now: float) -> None:
    """We asked to be woken at `due_at`: if that was long ago, the process was suspended since, and
    the limit of what is under way moves by as much."""
    if due_at is not None and now > due_at + SLEPT_S:
        agent.slot.extend(now - due_at)


def expire(agent: Agent, now: float) -> None:
    """Give up what is under way if its limit has passed."""
    slot = agent.slot
    if slot.deadline is None or now < slot.deadline:
        return
    failure = Failure(TimedOut.kind, _reason(agent, now))
    agent.counts["never_answered"] += 1
    record = agent.occupant()
    tasks = slot.abandon()
    wait_again(agent, tasks[1:], now)
    if record is not None:
        agent.partitions.fail(record, failure, now)
    if tasks:
        task_failed(agent, tasks[0], failure, now)
    agent.failure = failure
    begin_to_stop(agent, failure.reason, now)


def _reason(agent: Agent, now: float) -> str:
    slot = agent.slot
    what = {
        "loading": f"load {slot.partition}",
        "executing": f"run {slot.task} on {slot.partition}",
        "evicting": f"give up {slot.partition}",
    }[slot.busy or "loading"]
    return (
        f"waited {now - slot.since:.0f} s for ONNX Runtime to {what}, and it never answered; "
        f"the agent on {agent.device} ends: start it again if nothing does so by itself"
    )
