"""Carrying out commands: each is idempotent; those of an older generation are dropped, and so is
a batch that was obeyed already, or that one with a higher number has followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge_agent.machine.frames.arrivals import forget_input
from edge_agent.machine.frames.routes import forward
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import CommandsArrived
from edge_agent.machine.records.held_frames import HeldInput, HeldOutput
from edge_agent.machine.records.instructions import ForgetFrame, RemoveBlobs
from wire.ids import ActivationId
from wire.messages.commands import (
    Acknowledge,
    Cancel,
    Evict,
    Open,
    Ping,
    Profile,
    Release,
    Report,
    Send,
)
from wire.messages.events import FrameDropped, Pong, Profiled


def commands_arrived(agent: Agent, event: CommandsArrived, now: float) -> None:
    batch = event.batch
    agent.desk_heard_at = now
    if agent.foreign:
        agent.counts["foreign_orders"] += 1
        return
    numbered = batch.number and batch.stamp <= agent.batch_stamp
    if batch.generation < agent.generation or numbered:
        agent.counts["stale_commands"] += len(batch.commands)
        return
    agent.batch_stamp = max(agent.batch_stamp, batch.stamp)
    agent.note_generation(batch.generation)
    for command in batch.commands:
        agent.cause.stimulus = command
        OBEY[type(command)](agent, command, now)


def _send(agent: Agent, command: Send, now: float) -> None:
    for item in command.items:
        name = ActivationId(command.run, item, command.cut)
        output = agent.held.outputs.get(name)
        if output:
            forward(agent, output, command.to, now)
        elif _is_coming(agent, name):
            agent.requested_sends.put(name, (command.to, agent.stamp))
        else:
            agent.counts["dropped_not_held"] += 1
            agent.report(FrameDropped(name, "not_held", "asked to send it, but it is not here"))


def _is_coming(agent: Agent, output: ActivationId) -> bool:
    """Whether a task that waits or runs here will produce it."""
    task = agent.slot.maker_of(output)
    running = agent.held.inputs.get(task.needs) if task else None
    if running is not None and running.life.state == "running":
        return True
    for record in agent.partitions.makers_of(output.cut):
        if agent.partitions.takes(record):
            name = ActivationId(output.run, output.item, record.id.first)
            entry = agent.held.inputs.get(name)
            if entry and entry.key == record.key and entry.life.state != "early":
                return True
    return False


def _release(agent: Agent, command: Release, now: float) -> None:
    for item in command.items:
        output = agent.held.outputs.get(ActivationId(command.run, item, command.cut))
        if output is not None:
            _forget_output(agent, output, "released", now)


def _forget_output(agent: Agent, output: HeldOutput, state: str, now: float) -> None:
    agent.held.move_output(output, state, now)
    agent.held.remove_output(output)
    agent.cancel_sends(output.name)
    agent.instruct(ForgetFrame(output.name, "output"))


def _open(agent: Agent, command: Open, now: float) -> None:
    for item in command.items:
        name = ActivationId(command.run, item, command.cut)
        agent.opened.put(name, True)
        agent.held.open_input(name)


def _cancel(agent: Agent, command: Cancel, now: float) -> None:
    held = agent.held
    for item in command.items or (None,):
        agent.cancelled.put((command.run, item), True)
        for name in held.inputs_by_run.of(command.run, item):
            _cancel_input(agent, held.inputs[name], now)
        for name in held.outputs_by_run.of(command.run, item):
            _forget_output(agent, held.outputs[name], "cancelled", now)


def _cancel_input(agent: Agent, entry: HeldInput, now: float) -> None:
    """A running task cannot be interrupted: its input and output are removed when it ends."""
    if entry.life.state == "running":
        agent.slot.cancel(entry.name, entry.head.nbytes)
        agent.held.move_input(entry, "cancelled", now)
        agent.held.remove_input(entry)
    else:
        forget_input(agent, entry, "cancelled", now)


def _evict(agent: Agent, command: Evict, now: float) -> None:
    pins = agent.cache.pins
    going = agent.cache.begin_removal(d for d in command.digests if d not in pins)
    if going:
        agent.instruct(RemoveBlobs(going))
        agent.inventory_after_removal = True
    else:
        agent.inventory_due = True


def _report(agent: Agent, command: Report, now: float) -> None:
    agent.inventory_due = True


def _ping(agent: Agent, command: Ping, now: float) -> None:
    agent.report(Pong(command.nonce, now))


def _profile(agent: Agent, command: Profile, now: float) -> None:
    record = agent.partitions.get(command.partition)
    if record and record.segment_s:
        agent.report(Profiled(record.id, record.segment_s))


def _acknowledge(agent: Agent, command: Acknowledge, now: float) -> None:
    if command.boot == agent.boot:
        agent.log.acknowledge(command.seq)
        agent.repeat_at = now + agent.limits.repeat_s
        agent.inventory_due |= agent.log.lossy


OBEY: dict[type, Callable[[Agent, Any, float], None]] = {
    Send: _send,
    Release: _release,
    Open: _open,
    Cancel: _cancel,
    Evict: _evict,
    Report: _report,
    Ping: _ping,
    Profile: _profile,
    Acknowledge: _acknowledge,
}
