"""A record that contradicts itself or another is found: one corruption for each invariant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from edge_agent.machine.invariants.everything import validate
from edge_agent.machine.records.agent import Agent
from tests.support.agent_bench import Bench, head, partition, route
from wire.ids import ActivationId
from wire.lifecycle import InvariantBroken, Step
from wire.messages.residency import Failure

FIRST, SECOND, THIRD = partition(0, 1), partition(2, 3), partition(4, 5)
RUNNING, WAITING = ActivationId("r", 0, 0), ActivationId("r", 1, 0)
EARLY, PARKED = ActivationId("r", 5, 77), ActivationId("done", 0, 2)
FAILURE = Failure("kind", "why")


@pytest.fixture
def agent() -> Agent:
    """One partition is in memory and runs a task, one is cached, one is fetched; an input waits,
    one is early, and an output is parked."""
    bench = Bench(cached={"a" * 64: 10, f"{'a' * 64}.fast": 20})
    bench.serve(FIRST, SECOND, routes=(route(4, "peer"),))
    bench.assign(FIRST, SECOND, THIRD, routes=(route(4, "peer"),))
    bench.arrive(0, run="done")
    bench.executed(bench.running)
    for item in (0, 1):
        bench.arrive(item)
    bench.arrive(5, 77)
    bench.arrive(0, 2)
    bench.machine.validate()
    return bench.machine._agent


Corrupt = Callable[[Agent], object]


def setting(path: str, value: object) -> Corrupt:
    """Sets one attribute; `path` starts at the agent."""

    def corrupt(agent: Agent) -> None:
        *way, last = path.split(".")
        owner: object = agent
        for name in way:
            owner = getattr(owner, name)
        setattr(owner, last, value)

    return corrupt


def raising(path: str) -> Corrupt:
    """One total is one too high."""

    def corrupt(agent: Agent) -> None:
        *way, last = path.split(".")
        owner: object = agent
        for name in way:
            owner = getattr(owner, name)
        setattr(owner, last, getattr(owner, last) + 1)

    return corrupt


def noting(name: ActivationId, *steps: Step) -> Corrupt:
    """The history has steps that were never taken."""
    return lambda agent: agent.held.inputs[name].life._steps.extend(steps)


def of_record(at: int, act: Callable[..., object]) -> Corrupt:
    return lambda agent: act(list(agent.partitions)[at])


CORRUPTIONS: dict[str, tuple[Corrupt, str]] = {
    # held frames: totals
    "all bytes": (raising("held.nbytes"), "bytes of all frames"),
    "input bytes": (raising("held.inputs_nbytes"), "bytes of inputs"),
    "early bytes": (raising("held.early_nbytes"), "bytes of early inputs"),
    "queue depth": (raising("held.queue_depth"), "depth of the queue"),
    # held frames: indices
    "early by age": (lambda a: a.held.early_by_age.discard(EARLY), "early inputs by age"),
    "early by arrival": (lambda a: a.held.early_by_arrival.discard(EARLY), "early ones by arrival"),
    "a due time lost": (lambda a: a.held.early_by_age._heap.clear(), "the heap of early inputs"),
    "inputs by run": (lambda a: a.held.inputs_by_run.discard(WAITING), "inputs by run"),
    "outputs by run": (lambda a: a.held.outputs_by_run.discard(PARKED), "outputs by run"),
    "startable": (
        lambda a: next(q for q in a.held.queues.values() if q.startable).startable.discard(WAITING),
        "startable inputs",
    ),
    "parked": (lambda a: a.held.parked.clear(), "parked outputs"),
    "the order of arrival": (
        lambda a: setattr(a.held.inputs[WAITING], "number", 0),
        "in order of arrival",
    ),
    "a queue": (lambda a: a.held.queues.clear(), "the queues of early inputs"),
    # states and histories
    "a state without a step": (
        lambda a: setattr(a.held.inputs[WAITING].life, "state", "early"),
        "changed its state by no step",
    ),
    "a state that is none": (
        lambda a: setattr(a.held.inputs[WAITING].life, "state", "lost"),
        "a state that does not exist",
    ),
    "a step that is none": (
        noting(WAITING, (100.0, "early", "", ""), (100.0, "running", "", "")),
        "is no step",
    ),
    "time that goes back": (
        noting(RUNNING, (1.0, "done", "", "")),
        "time went back",
    ),
    "an output that is gone": (
        lambda a: a.held.outputs[PARKED].life.move("released", 200.0),
        "is released",
    ),
    # the slot in memory
    "an empty slot that works": (setting("slot.occupant", None), "in an empty slot"),
    "work without a limit": (setting("slot.deadline", None), "is timed"),
    "no task that executes": (setting("slot.running", {}), "while it executes"),
    "a busy slot that waits": (setting("slot.lacking_room_since", 1.0), "waits for room"),
    "two in memory": (
        of_record(1, lambda r: [r.life.move(s, 200.0) for s in ("loading", "resident")]),
        "more than one partition in memory",
    ),
    "a slot with another": (setting("slot.busy", "evicting"), "while it executes"),
    # cache and fetches
    "cached bytes": (raising("cache.nbytes"), "bytes in the cache"),
    "bytes removed": (raising("cache.removing_nbytes"), "bytes being removed"),
    "a pin": (lambda a: a.cache.pins.popitem(), "pins of blobs"),
    "what may go": (lambda a: a.cache.removable.discard("a" * 64), "what may be removed"),
    "what was prepared": (lambda a: a.cache.prepared_of.clear(), "prepared by owner"),
    "a time of use": (lambda a: a.cache.used_at.popitem(), "a time of use"),
    "a blob here and removed": (
        lambda a: a.cache.removing.update({"a" * 64: 0}),
        "is not in the cache",
    ),
    "active and failed": (
        lambda a: a.fetches.failed.update({next(iter(a.fetches.active)): FAILURE}),
        "is under way that failed",
    ),
    "a pause of what never failed": (
        lambda a: a.fetches.paused.put("b" * 64, 900.0),
        "never tried",
    ),
    # partitions
    "missing blobs": (of_record(2, lambda r: r.missing.popitem()), "missing blobs"),
    "missing bytes": (
        of_record(2, lambda r: setattr(r, "missing_nbytes", 0)),
        "missing bytes",
    ),
    "all missing bytes": (raising("partitions.missing_nbytes"), "bytes that they miss"),
    "what can be fetched": (
        of_record(2, lambda r: r.fetchable.put("b" * 64, 9)),
        "what can be fetched",
    ),
    "who is to be fetched for": (
        lambda a: a.partitions.to_fetch.put(FIRST.partition, (True, 0, 0)),
        "to be fetched for",
    ),
    "who is cached": (lambda a: a.partitions.cached.discard(SECOND.partition), "cached partitions"),
    "who is ready": (lambda a: a.partitions.ready.discard(SECOND.partition), "with work"),
    "who has work": (lambda a: a.partitions.keys_with_work.clear(), "inputs that can start"),
    "a failure of none": (
        of_record(1, lambda r: setattr(r, "failure", FAILURE)),
        "failed without a reason",
    ),
    "a watch that runs": (
        of_record(1, lambda r: setattr(r, "fetching_since", 1.0)),
        "the watch",
    ),
    "an unlisted one": (of_record(1, lambda r: setattr(r, "listed", False)), "kept for nothing"),
    # what is remembered and to be said
    "a send that waits": (
        lambda a: a.queued_sends.update({PARKED: {"peer": None}}),
        "a connection that is there",
    ),
    "an unknown dependent": (lambda a: a.dependents.clear(), "dependents of cut"),
    "a generation": (setting("generation", 0), "was not noted"),
    "a memory": (setting("finished._bound", 0), "larger than its bound"),
    "events that wait": (setting("log._unsent.since", 1.0), "without a time"),
    "an acknowledgement": (setting("log._acknowledged", 10**9), "never was"),
}


@pytest.mark.parametrize("what", list(CORRUPTIONS))
def test_a_corrupted_record_is_found(agent: Agent, what: str) -> None:
    corrupt, says = CORRUPTIONS[what]
    corrupt(agent)
    with pytest.raises(InvariantBroken, match=says):
        validate(agent)


def test_what_is_found_tells_the_entitys_history_and_what_caused_it() -> None:
    bench = Bench(validated=False)
    bench.serve(FIRST)
    bench.arrive(0, sender="laptop")
    bench.machine._agent.held.inputs[RUNNING].head = replace(head(0), activation=WAITING)
    with pytest.raises(
        InvariantBroken, match=r"waiting at 100\.000, as frame r/0@0 arrived from laptop"
    ):
        bench.machine.validate()
