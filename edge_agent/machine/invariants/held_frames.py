"""Held frames: totals are the sums, indices are what a look at all frames gives."""

from __future__ import annotations

from edge_agent.machine.frames.takers import taker_of
from edge_agent.machine.invariants.checks import check, check_equal, check_ranks
from edge_agent.machine.invariants.lifecycles import check_life
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.held_frames import HeldInput, HeldOutput


def check_held_frames(agent: Agent) -> None:
    held = agent.held
    inputs, outputs = list(held.inputs.values()), list(held.outputs.values())
    for name, entry in held.inputs.items():
        _check_input(agent, entry, name)
    for name, output in held.outputs.items():
        _check_output(output, name)
    check_equal(held.inputs_nbytes, sum(e.head.nbytes for e in inputs), "bytes of inputs")
    both = held.inputs_nbytes + sum(e.head.nbytes for e in outputs)
    check_equal(held.nbytes, both, "bytes of all frames")
    early = [e for e in inputs if e.life.state == "early"]
    check_equal(held.early_nbytes, sum(e.head.nbytes for e in early), "bytes of early inputs")
    queued = sum(e.life.state in ("waiting", "running") for e in inputs)
    check_equal(held.queue_depth, queued, "depth of the queue")
    numbers = [e.number for e in inputs]
    check_equal(numbers, sorted(set(numbers)), "inputs are in order of arrival")
    check_ranks(held.early_by_age, {e.name: e.early_since for e in early}, "early inputs by age")
    check_ranks(held.early_by_arrival, {e.name: -e.number for e in early}, "early ones by arrival")
    check_equal(held.inputs_by_run.names(), set(held.inputs), "inputs by run")
    check_equal(held.outputs_by_run.names(), set(held.outputs), "outputs by run")
    _check_queues(agent, inputs)
    _check_parked(agent, outputs)


def _check_input(agent: Agent, entry: HeldInput, name: object) -> None:
    check_life(entry.life)
    check_equal(name, entry.name, "an input lies under its name", entry.life)
    state = entry.life.state
    check(state in ("early", "waiting", "running"), f"input {name} is {state}", entry.life)
    check(entry.again is None or state == "running", f"{name} came again and waits", entry.life)
    if state == "running":
        runs = any(task.needs == name for task in agent.slot.running)
        check(runs, f"{name} runs in no slot", entry.life)
    elif state == "waiting":
        check(agent.partitions.taking(entry.key), f"{name} waits for no partition", entry.life)
    else:
        taker = taker_of(agent, entry.key, entry.sender)
        check(taker is None, f"{name} has a partition", entry.life)


def _check_output(output: HeldOutput, name: object) -> None:
    check_life(output.life)
    check_equal(name, output.name, "an output lies under its name", output.life)
    state = output.life.state
    check(state in ("parked", "sent"), f"output {name} is {state}", output.life)


def _check_queues(agent: Agent, inputs: list[HeldInput]) -> None:
    queues = agent.held.queues
    check(not any(queue.is_empty for queue in queues.values()), "no queue is empty")
    for state in ("early", "waiting"):
        found = {e.name: e for e in inputs if e.life.state == state}
        kept = {name: e for queue in queues.values() for name, e in getattr(queue, state).items()}
        check_equal(kept, found, f"the queues of {state} inputs")
        for key, queue in queues.items():
            mine = {name for name, e in found.items() if e.key == key}
            check_equal(set(getattr(queue, state)), mine, f"{state} inputs of {key}")
    for key, queue in queues.items():
        startable = {name: e.number for name, e in queue.waiting.items() if e.opened}
        check_ranks(queue.startable, startable, f"startable inputs of {key}")


def _check_parked(agent: Agent, outputs: list[HeldOutput]) -> None:
    parked = agent.held.parked
    check(all(parked.values()), "no list of parked outputs is empty")
    kept = {(key, name) for key, entries in parked.items() for name in entries}
    found = {(o.key, o.name) for o in outputs if o.life.state == "parked"}
    check_equal(kept, found, "parked outputs")
