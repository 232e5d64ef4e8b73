"""What each kind of event costs the agent's machine, in calls: it follows what the event touches,
not what else is held, listed, cached or remembered. No clock takes part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import get_args

import pytest

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records import events as happened
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, Bench, head, partition, readings, route
from tests.support.calls import count_calls
from wire.ids import ActivationId, digest_of
from wire.messages import commands as cmd
from wire.messages.assignment import Assignment, Limits, PartitionAssignment
from wire.messages.commands import Command, CommandBatch
from wire.messages.state import OrchestratorState

MOST = 1.5  # times the calls that the same event takes where there is nothing else
ROOMY = replace(CAPABILITIES, disk_budget_nbytes=1 << 40, hold_nbytes=1 << 40)
LIMITS = AgentLimits(gather_s=0.0, gather_busy_s=0.0, repeat_s=1e6, restate_s=1e6)
EARLY = Limits(early_nbytes=1 << 40, early_s=1e6, reassembly_s=60.0)
NOBODYS_CUT = 10_000


@dataclass(frozen=True)
class Crowd:
    """What else is there. `held` frames of each sort: inputs that wait for the resident partition,
    inputs that no partition takes, and outputs."""

    held: int = 0
    listed: int = 1
    fetching: int = 0
    cached: int = 0
    unacknowledged: int = 1


CROWDS = {
    "held frames": (Crowd(), Crowd(held=1000)),
    # Two, so that another one takes over in both when the first fails.
    "listed partitions": (Crowd(listed=2), Crowd(listed=100)),
    "partitions to fetch": (Crowd(fetching=3), Crowd(fetching=100)),
    "cached blobs": (Crowd(), Crowd(cached=1000)),
    "unacknowledged events": (Crowd(), Crowd(unacknowledged=1000)),
}


def listing(crowd: Crowd) -> tuple[PartitionAssignment, ...]:
    return tuple(partition(index, index) for index in range(crowd.listed))


def to_fetch(crowd: Crowd) -> tuple[PartitionAssignment, ...]:
    return tuple(partition(1000 + index, 1000 + index) for index in range(crowd.fetching))


def loading(crowd: Crowd) -> Bench:
    """Connected, and the first partition is on its way into memory; the crowd is there."""
    cached = {digest_of(f"cached {index}".encode()): 100 for index in range(crowd.cached)}
    bench = Bench(ROOMY, LIMITS, cached, validated=False)
    bench.connect()
    bench.orchestrator(1)
    bench.assign(*listing(crowd), limits=EARLY)
    bench.fetch_all()
    bench.assign(*listing(crowd), *to_fetch(crowd), limits=EARLY)
    for index in range(crowd.held):
        bench.arrive(index, NOBODYS_CUT, run="early")
    for index in range(crowd.unacknowledged):
        bench.command(cmd.Ping(f"{index}"))
    return bench


def working(crowd: Crowd) -> Bench:
    """The same, with a task under way, others that wait for the same partition, and outputs."""
    bench = loading(crowd)
    bench.ready(partition(0, 0))
    for index in range(max(1, crowd.held)):
        bench.arrive(index, run="before")
        bench.executed(bench.running)
    bench.command(cmd.Acknowledge("boot1", bench.last_seq))
    for index in range(crowd.unacknowledged):
        bench.command(cmd.Ping(f"{index}"))
    bench.arrive(0, run="now")
    for index in range(1, crowd.held + 1):
        bench.arrive(index, run="now")
    bench.command(cmd.Acknowledge("boot1", bench.last_seq - crowd.unacknowledged))
    return bench


def idle(crowd: Crowd) -> Bench:
    """The same, with nothing to do for what is in memory."""
    bench = loading(crowd)
    bench.ready(partition(0, 0))
    return bench


Prepare = Callable[[Bench, Crowd], happened.Event]


def frame(item: int, cut: int = 0, **values: object) -> Prepare:
    arrived = happened.FrameArrived(head(item, cut, **values), "peer")  # type: ignore[arg-type] # as given
    return lambda bench, crowd: arrived


def command(*commands: Command) -> Prepare:
    return lambda bench, crowd: happened.CommandsArrived(CommandBatch(1, commands))


def a_frame_comes_again(bench: Bench, crowd: Crowd) -> happened.Event:
    bench.arrive(7, run="again")
    return happened.FrameArrived(head(7, run="again"), "peer")


def a_frame_of_a_cancelled_run(bench: Bench, crowd: Crowd) -> happened.Event:
    bench.command(cmd.Cancel("gone"))
    return happened.FrameArrived(head(0, run="gone"), "peer")


def a_held_output_is(command: Callable[[str, int, tuple[int, ...]], Command]) -> Prepare:
    def prepare(bench: Bench, crowd: Crowd) -> happened.Event:
        bench.executed(bench.running)
        bench.arrive(1, run="next")
        return happened.CommandsArrived(CommandBatch(1, (command("now", 1, (0,)),)))

    return prepare


def an_item_is_cancelled(bench: Bench, crowd: Crowd) -> happened.Event:
    bench.arrive(9, run="other")
    return happened.CommandsArrived(CommandBatch(1, (cmd.Cancel("other", (9,)),)))


def a_run_is_cancelled(bench: Bench, crowd: Crowd) -> happened.Event:
    bench.arrive(9, run="other")
    return happened.CommandsArrived(CommandBatch(1, (cmd.Cancel("other"),)))


def one_is_acknowledged(bench: Bench, crowd: Crowd) -> happened.Event:
    seq = bench.last_seq - crowd.unacknowledged + 1
    return happened.CommandsArrived(CommandBatch(1, (cmd.Acknowledge("boot1", seq),)))


def a_task_ended(bench: Bench, crowd: Crowd) -> happened.Event:
    task = bench.running
    made = head(task.item, task.last + 1, run=task.run)
    return happened.TaskExecuted(bench.number, task, made, 0.01, 0.1, 0.02, (0.1,))


def a_task_failed(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.ExecutionFailed(bench.number, bench.running, "compute_failed", "why")


def a_task_ruined_its_partition(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.ExecutionFailed(bench.number, bench.running, "compute_failed", "why", True)


def a_fetch_begins(bench: Bench, crowd: Crowd) -> None:
    if not bench.fetching:
        bench.assign(*listing(crowd), partition(5000, 5000), *to_fetch(crowd), limits=EARLY)


def a_blob_came(bench: Bench, crowd: Crowd) -> happened.Event:
    a_fetch_begins(bench, crowd)
    blob = bench.fetching[0]
    return happened.BlobFetched(blob.digest, blob.nbytes, 0.1)


def a_blob_progressed(bench: Bench, crowd: Crowd) -> happened.Event:
    a_fetch_begins(bench, crowd)
    return happened.FetchProgressed(bench.fetching[0].digest, 50)


def a_fetch_failed(retryable: bool) -> Prepare:
    def prepare(bench: Bench, crowd: Crowd) -> happened.Event:
        a_fetch_begins(bench, crowd)
        return happened.FetchFailed(bench.fetching[0].digest, "kind", "why", retryable)

    return prepare


def a_blob_rotted(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.BlobsRemoved((partition(0, 0).blobs[0].digest,))


def segments_were_prepared(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.SegmentsPrepared({f"{partition(0, 0).blobs[0].digest}.fast": 100})


def the_partition_is_ready(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.PartitionReady(bench.number, partition(0, 0).partition, False, 0.1, 1, 2)


def the_partition_was_refused(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.LoadRefused(bench.number, partition(0, 0).partition, "over_budget", "why")


def the_partition_left(bench: Bench, crowd: Crowd) -> happened.Event:
    bench.assign(*listing(crowd)[1:], *to_fetch(crowd), limits=EARLY)
    return happened.PartitionGone(bench.number, partition(0, 0).partition, 0.1, 1)


def the_same_is_assigned(bench: Bench, crowd: Crowd) -> happened.Event:
    served = (*listing(crowd), *to_fetch(crowd))
    return happened.AssignmentArrived(
        Assignment(1, bench.revision + 1, "http://store", served, (route(77, "peer"),), EARLY)
    )


def an_old_assignment_came(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.AssignmentArrived(Assignment(1, 0, "http://store"))


def the_connection_is_lost(bench: Bench, crowd: Crowd) -> happened.Event:
    return happened.Disconnected("why")


def the_connection_is_back(bench: Bench, crowd: Crowd) -> happened.Event:
    bench.do(happened.Disconnected("why"))
    return happened.Connected("again", True, None)


def orchestrator(connection: str, generation: int = 1) -> Prepare:
    state = OrchestratorState("online", connection, "oboot", generation, "0", 1)
    return lambda bench, crowd: happened.OrchestratorSeen(state, False)


def time_passed(bench: Bench, crowd: Crowd) -> happened.Event:
    bench.now += 0.5
    return happened.Ticked()


def says(event: happened.Event) -> Prepare:
    return lambda bench, crowd: event


Stage = Callable[[Crowd], Bench]
EVENTS: dict[str, tuple[Stage, Prepare]] = {
    "a frame for the resident partition": (working, frame(9, run="new")),
    "a frame for the idle partition": (idle, frame(9, run="new")),
    "a frame that nobody takes": (working, frame(9, 77, run="new")),
    "a frame that comes again": (working, a_frame_comes_again),
    "a frame of a cancelled run": (working, a_frame_of_a_cancelled_run),
    "a frame too large": (working, frame(9, run="new", raw_nbytes=1 << 30)),
    "a frame was lost": (
        working,
        says(happened.FrameLost(ActivationId("new", 9, 0), "timed_out", "why")),
    ),
    "a task ended": (working, a_task_ended),
    "a task failed": (working, a_task_failed),
    "a task ruined its partition": (working, a_task_ruined_its_partition),
    "send": (working, a_held_output_is(lambda run, cut, items: cmd.Send(run, cut, items, "peer"))),
    "send what is not here": (working, command(cmd.Send("none", 1, (0,), "peer"))),
    "send what is computed": (working, command(cmd.Send("now", 1, (0,), "peer"))),
    "release": (working, a_held_output_is(cmd.Release)),
    "open": (working, command(cmd.Open("now", 0, (0,)))),
    "cancel an item": (working, an_item_is_cancelled),
    "cancel a run": (working, a_run_is_cancelled),
    "evict": (working, command(cmd.Evict((digest_of(b"x"),)))),
    "report": (working, command(cmd.Report())),
    "ping": (working, command(cmd.Ping("n"))),
    "profile": (working, command(cmd.Profile(partition(0, 0).partition))),
    "acknowledge": (working, one_is_acknowledged),
    "a blob came": (working, a_blob_came),
    "a fetch progressed": (working, a_blob_progressed),
    "a fetch failed": (working, a_fetch_failed(retryable=True)),
    "a fetch failed for good": (working, a_fetch_failed(retryable=False)),
    "a blob rotted": (working, a_blob_rotted),
    "segments were prepared": (loading, segments_were_prepared),
    "the partition is ready": (loading, the_partition_is_ready),
    "the partition was refused": (loading, the_partition_was_refused),
    "the partition left": (idle, the_partition_left),
    "an old assignment": (working, an_old_assignment_came),
    "the same assignment": (working, the_same_is_assigned),
    "disconnected": (working, the_connection_is_lost),
    "connected": (working, the_connection_is_back),
    "state cleared": (working, says(happened.StateCleared())),
    "the orchestrator again": (working, orchestrator("o1")),
    "an order that is not the desk's": (working, says(happened.OrderRefused("forged"))),
    "another orchestrator": (working, orchestrator("o2")),
    "a new generation": (working, orchestrator("o3", 2)),
    "telemetry": (working, says(happened.TelemetryRead(readings()))),
    "time passed": (working, time_passed),
    "asked to stop": (working, says(happened.StopAsked("why"))),
}

# Events whose job is to say or to take in all of something: so many calls for each of it at most.
WHOLE = {
    ("the same assignment", "listed partitions"): 150,
    ("the same assignment", "partitions to fetch"): 150,
    ("connected", "unacknowledged events"): 5,
    ("state cleared", "unacknowledged events"): 5,
    ("another orchestrator", "unacknowledged events"): 5,
    ("a new generation", "unacknowledged events"): 5,
}


@cache
def calls(what: str, crowd: Crowd) -> int:
    stage, prepare = EVENTS[what]
    bench = stage(crowd)
    event = prepare(bench, crowd)
    return count_calls(lambda: bench.machine.handle(event, bench.now))


def size(crowd: Crowd) -> int:
    return crowd.held + crowd.listed + crowd.fetching + crowd.cached + crowd.unacknowledged


CASES = [(what, among) for what in EVENTS for among in CROWDS]


@pytest.mark.parametrize(("what", "among"), [case for case in CASES if case not in WHOLE])
def test_an_event_costs_the_same_among_few_and_many(what: str, among: str) -> None:
    few, many = CROWDS[among]
    assert calls(what, many) <= MOST * calls(what, few)


@pytest.mark.parametrize(("what", "among"), list(WHOLE))
def test_what_says_all_of_something_costs_so_much_for_each(what: str, among: str) -> None:
    few, many = CROWDS[among]
    more = calls(what, many) - calls(what, few)
    assert more <= WHOLE[what, among] * (size(many) - size(few))


def test_every_kind_of_event_is_counted() -> None:
    """`Started` is the first: there is nothing else then. It costs so much for each blob."""
    counted = {type(prepare(stage(Crowd()), Crowd())) for stage, prepare in EVENTS.values()}
    assert counted | {happened.Started} == set(get_args(happened.Event))
    commands = {
        type(command)
        for stage, prepare in EVENTS.values()
        if isinstance(event := prepare(stage(Crowd()), Crowd()), happened.CommandsArrived)
        for command in event.batch.commands
    }
    assert commands == set(get_args(cmd.Command))


def test_a_start_costs_so_much_for_each_cached_blob() -> None:
    def start(blobs: int) -> int:
        machine = AgentMachine("phone", ROOMY, LIMITS)
        cached = {digest_of(f"{index}".encode()): 100 for index in range(blobs)}
        return count_calls(lambda: machine.handle(happened.Started("boot1", cached), 0.0))

    assert start(1000) - start(0) <= 25 * 1000


def test_cancelling_a_run_costs_so_much_for_each_of_its_frames() -> None:
    bench = working(Crowd(held=1000))
    cancel = happened.CommandsArrived(CommandBatch(1, (cmd.Cancel("now"),)))
    assert count_calls(lambda: bench.machine.handle(cancel, bench.now)) <= 60 * 1000


def test_a_repeat_is_bounded_however_many_events_wait() -> None:
    def repeat(events: int) -> int:
        limits = replace(LIMITS, repeat_s=5.0, batch_events=10, repeat_batches=5)
        bench = Bench(ROOMY, limits, validated=False)
        bench.connect()
        for index in range(events):
            bench.command(cmd.Ping(f"{index}"))
        bench.now += 100.0
        return count_calls(lambda: bench.machine.handle(happened.Ticked(), bench.now))

    assert repeat(5000) <= MOST * repeat(100)


def test_what_expires_costs_what_expires() -> None:
    """Of a thousand early frames, the one that is due goes."""

    def expire(frames: int) -> int:
        bench = Bench(ROOMY, LIMITS, validated=False)
        bench.connect()
        bench.assign(limits=replace(EARLY, early_s=100.0))
        bench.arrive(0, 5)
        bench.now += 1.0
        for index in range(1, frames):
            bench.arrive(index, 5)
        bench.now += 99.5
        return count_calls(lambda: bench.machine.handle(happened.Ticked(), bench.now))

    assert expire(1000) <= MOST * expire(2)


def test_room_is_made_at_the_cost_of_what_goes() -> None:
    """Of a thousand blobs that nobody uses, the two that have to go for a fetch go."""

    def fetch(blobs: int) -> int:
        cached = {digest_of(f"{index}".encode()): 1100 for index in range(blobs)}
        tight = replace(ROOMY, disk_budget_nbytes=blobs * 1100)
        bench = Bench(tight, LIMITS, cached, validated=False)
        bench.connect()
        assigned = Assignment(1, 1, "http://store", (partition(0, 0),))
        event = happened.AssignmentArrived(assigned)
        return count_calls(lambda: bench.machine.handle(event, bench.now))

    assert fetch(1000) <= MOST * fetch(4)
