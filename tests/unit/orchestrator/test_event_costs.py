"""What an event costs the machine, in calls: as much as it touches, however much else there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.machine.records import events as ev
from tests.support.event_crowd import (
    ABLE,
    CLIENT,
    NUMBERS,
    Crowd,
    Kind,
    assert_alike,
)
from tests.support.tiny_manifest import MB
from wire.ids import ActivationId, PartitionId, TaskId
from wire.lifecycle import InvariantBroken
from wire.messages import events as dev
from wire.messages import requests as req
from wire.messages.residency import PartitionResidency, Residency
from wire.messages.state import DeviceState


def telemetry(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (crowd.telemetry() for _ in NUMBERS())


def residency(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        part = PartitionId("f" * 64, False, 0, index)
        entry = PartitionResidency(part, "other", "cached", 0, 0)
        told = Residency("d0002-c", 0, 0, (entry,), 1, 1)
        yield ev.ResidencySeen("d0002", told, False)


def state(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (crowd.birth("d0003") for _ in NUMBERS())


def offline_and_back(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        last = DeviceState("offline", f"d0004-c{index}", "d0004-b", "0", 1)
        fresh = DeviceState("online", f"d0004-c{index + 1}", "d0004-b", "0", 1, ABLE)
        yield ev.DeviceStateSeen("d0004", last, False)
        yield ev.DeviceStateSeen("d0004", fresh, False)


def received(crowd: Crowd) -> Iterator[ev.Event]:
    device, _ = crowd.placed()
    for _ in NUMBERS():
        at = ActivationId("busy0", 0, 0)
        yield crowd.batch(device, dev.FrameReceived(at, "orchestrator", 100, 0.0))


def started(crowd: Crowd) -> Iterator[ev.Event]:
    device, part = crowd.placed()
    for attempt in NUMBERS():
        yield crowd.batch(
            device, dev.TaskStarted(TaskId("busy0", 0, part.first, part.last, attempt), 0.0)
        )


def done(crowd: Crowd) -> Iterator[ev.Event]:
    device, part = crowd.placed()
    for attempt in NUMBERS():
        task = TaskId("busy0", 0, part.first, part.last, attempt)
        told = dev.TaskDone(task, 0.0, 0.0, 0.001, 0.01, 0.001, 100, 100, 32)
        yield crowd.batch(device, told)


def dropped(crowd: Crowd) -> Iterator[ev.Event]:
    device, _ = crowd.placed()
    for item in NUMBERS(400):
        crowd.store("busy0", item, crowd.models[0])
        yield crowd.batch(device, dev.FrameDropped(ActivationId("busy0", item, 0), "too_late", ""))


def loaded(crowd: Crowd) -> Iterator[ev.Event]:
    device, part = crowd.placed()
    for _ in NUMBERS():
        yield crowd.batch(device, dev.PartitionLoaded(part, 3, False, 0.0, 0.1, 5 * MB, 0.1, 1, 1))


def evicted(crowd: Crowd) -> Iterator[ev.Event]:
    device, part = crowd.placed()
    yield from (crowd.batch(device, dev.PartitionEvicted(part, 0.0, 0.1, 1)) for _ in NUMBERS())


def fetch_started(crowd: Crowd) -> Iterator[ev.Event]:
    device, part = crowd.placed()
    yield from (crowd.batch(device, dev.FetchStarted(part, 0.0, 1)) for _ in NUMBERS())


def inventory(crowd: Crowd) -> Iterator[ev.Event]:
    """Of a device that serves nothing: another's is about all that it holds."""
    told = dev.Inventory(1, 0, (), (), None, ("a" * 64, "b" * 64), ())
    yield from (crowd.batch("late", told) for _ in NUMBERS())


def pong(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (crowd.batch("d0006", dev.Pong(f"n{index}", 0.0)) for index in NUMBERS())


def profiled(crowd: Crowd) -> Iterator[ev.Event]:
    device, part = crowd.placed()
    for index in NUMBERS():
        seconds = tuple(0.01 + index for _ in range(part.first, part.last + 1))
        yield crowd.batch(device, dev.Profiled(part, seconds))


def finished(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        crowd.begin(f"open{index}", crowd.models[0])
        yield ev.RequestArrived(CLIENT, req.Finish(f"open{index}", 1000))


def resumed(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (ev.RequestArrived(CLIENT, req.Resume("busy0")) for _ in NUMBERS())


def listed(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (ev.RequestArrived(CLIENT, req.ListRuns("q", "busy0")) for _ in NUMBERS())


def left(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        crowd.begin(f"left{index}", crowd.models[0])
        yield ev.RequestArrived(CLIENT, req.LeaveRun(f"left{index}"))


def collected(crowd: Crowd) -> Iterator[ev.Event]:
    """By a session of the same user, which then ends it."""
    model, other = crowd.models[0], f"{CLIENT}-too"
    for index in NUMBERS():
        run = f"taken{index}"
        crowd.begin(run, model)
        crowd.store(run, 0, model)
        crowd.tell(ev.RequestArrived(CLIENT, req.LeaveRun(run)))
        yield ev.RequestArrived(other, req.CollectRun(run, model.digest))
        assert crowd.machine.state.runs[run].party == other
        crowd.tell(ev.RequestArrived(other, req.CancelRun(run)))


def journal_failed(crowd: Crowd) -> Iterator[ev.Event]:
    for item in NUMBERS(500):
        crowd.tell(crowd.input("busy0", item, crowd.models[0]))
        yield ev.JournalFailed("input", "busy0", item, "disk_full", "no room")


def input_arrived(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (crowd.input("busy0", item, crowd.models[0]) for item in NUMBERS(1))


def input_stored(crowd: Crowd) -> Iterator[ev.Event]:
    for item in NUMBERS(100):
        crowd.tell(crowd.input("busy0", item, crowd.models[0]))
        yield ev.InputStored("busy0", item)


def submitted(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        yield ev.RequestArrived(CLIENT, req.Submit(f"new{index}", crowd.models[0].name))


def run_stored(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        name = f"stored{index}"
        crowd.tell(ev.RequestArrived(CLIENT, req.Submit(name, crowd.models[0].name)))
        yield ev.RunStored(name)


def renewed(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (ev.RequestArrived(CLIENT, req.Renew(("busy0",))) for _ in NUMBERS())


def result(crowd: Crowd) -> Iterator[ev.Event]:
    device, _ = crowd.placed()
    model = crowd.models[0]
    for item in NUMBERS(200):
        crowd.store("busy0", item, model)
        at = ActivationId("busy0", item, len(model.segments))
        yield ev.ResultArrived(device, crowd.head(at, model))


def outcome_stored(crowd: Crowd) -> Iterator[ev.Event]:
    device, _ = crowd.placed()
    model = crowd.models[0]
    for item in NUMBERS(300):
        crowd.store("busy0", item, model)
        at = ActivationId("busy0", item, len(model.segments))
        crowd.tell(ev.ResultArrived(device, crowd.head(at, model)))
        yield ev.OutcomeStored("busy0", ev.Outcome(item))


def acknowledged(crowd: Crowd) -> Iterator[ev.Event]:
    for event in outcome_stored(crowd):
        crowd.tell(event)
        assert isinstance(event, ev.OutcomeStored)
        yield ev.RequestArrived(CLIENT, req.AcknowledgeResults("busy0", (event.outcome.item,)))


def cancelled(crowd: Crowd) -> Iterator[ev.Event]:
    for index in NUMBERS():
        crowd.begin(f"short{index}", crowd.models[0])
        yield ev.RequestArrived(CLIENT, req.CancelRun(f"short{index}"))


def assignment_seen(crowd: Crowd) -> Iterator[ev.Event]:
    said = crowd.machine.state.published[crowd.placed()[0]].generation
    yield from (ev.AssignmentSeen("d0005", said) for _ in NUMBERS())


def frame_lost(crowd: Crowd) -> Iterator[ev.Event]:
    for item in NUMBERS(10_000):
        yield ev.FrameLost("d0001", ActivationId("busy0", item, 3), "malformed", "torn")


def searched(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (ev.PlanSearched(1_000_000 + index, None, "no_device") for index in NUMBERS())


def ticked(crowd: Crowd) -> Iterator[ev.Event]:
    yield from (ev.Ticked() for _ in NUMBERS())


KINDS: tuple[Kind, ...] = (
    done,
    dropped,
    loaded,
    evicted,
    fetch_started,
    inventory,
    pong,
    profiled,
    finished,
    resumed,
    listed,
    left,
    collected,
    journal_failed,
    telemetry,
    residency,
    state,
    offline_and_back,
    received,
    started,
    input_arrived,
    input_stored,
    submitted,
    run_stored,
    renewed,
    result,
    outcome_stored,
    acknowledged,
    cancelled,
    assignment_seen,
    frame_lost,
    searched,
    ticked,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_costs_what_it_touches(crowds: tuple[Crowd, Crowd], kind: Kind) -> None:
    assert_alike(kind, crowds)


def test_a_broken_total_is_found() -> None:
    crowd = Crowd()
    crowd.machine.validate()
    crowd.machine.state.budget.spooled_nbytes += 1
    with pytest.raises(InvariantBroken, match="bytes of inputs on disk"):
        crowd.machine.validate()
