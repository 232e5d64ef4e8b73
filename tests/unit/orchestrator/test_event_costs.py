"""What an event costs the machine, in calls: as much as it touches, however much else there is.

No clock: calls of Python and C functions are counted. Each kind of event is handled by a small and
by a large machine, several times, and the median of the large one may be 1.5 times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from statistics import median

import pytest

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.calls import count_calls
from tests.support.planner_beside import answered
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.elements import Element
from wire.frame_head import FrameHead, TensorHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.lifecycle import InvariantBroken
from wire.manifest import Manifest
from wire.messages import events as dev
from wire.messages import requests as req
from wire.messages.residency import PartitionResidency, Residency
from wire.messages.state import Capabilities, DeviceState
from wire.messages.telemetry import Telemetry

MOST = 1.5
TIMES = 5  # of each kind, one after another
CLIENT = "clients/ann/s1"
ABLE = Capabilities(100 * MB, 1000 * MB, 400 * MB, 4, "x86_64", "1.30", 21)


class Crowd:
    """A machine with devices, plans and runs; `next` gives a fresh event of each kind.

    Of the devices all are alive and the first two serve what `busy` computes; `idle` runs were
    accepted and have no items. Each of the plans has one run with an item in flight.
    """

    def __init__(self, *, devices: int = 10, runs: int = 1, plans: int = 1) -> None:
        self.now = 100.0
        self.machine = OrchestratorMachine(OrchestratorOptions())
        self.sequence = dict.fromkeys(self._names(devices), 0)
        self.models = [tiny_manifest(f"m{index}", weights=[10 * MB] * 3) for index in range(plans)]
        self.tell(ev.Started("o1", 1, (), "http://:1"))
        for model in self.models:
            self.tell(ev.ModelAdded(model))
        self.tell(ev.Connected("oc1"))
        for name in self.sequence:
            self.tell(self.birth(name))
            self.tell(self.telemetry(name))
        self.pass_time(1.0)
        for index, model in enumerate(self.models):
            self.begin(f"busy{index}", model)
            self.store(f"busy{index}", 0, model)
        self.sequence["late"] = 0
        self.tell(self.birth("late"))
        for index in range(runs - 1):
            self.begin(f"idle{index}", self.models[0])
        self.pass_time(3.0)

    @staticmethod
    def _names(count: int) -> list[str]:
        return [f"d{index:04}" for index in range(count)]

    def tell(self, event: ev.Event) -> list[ins.Instruction]:
        """Searches are answered at once, and what the machine sends is heard by nobody."""
        out = self.machine.handle(event, self.now)
        for each in out:
            if isinstance(each, ins.SearchPlan):
                out = [*out, *self.tell(answered(each))]
        return out

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (wake := self.machine.wake_at()) is not None and wake <= end:
            self.now = max(self.now, wake)
            self.tell(ev.Ticked())
        self.now = end

    def begin(self, run: str, model: Manifest) -> None:
        self.tell(ev.RequestArrived(CLIENT, req.Submit(run, model.name)))
        self.tell(ev.RunStored(run))

    def store(self, run: str, item: int, model: Manifest) -> None:
        self.tell(self.input(run, item, model))
        self.tell(ev.InputStored(run, item))

    # --- events -------------------------------------------------------------------------------

    def birth(self, name: str) -> ev.Event:
        state = DeviceState("online", f"{name}-c", f"{name}-b", "0", 1, ABLE)
        return ev.DeviceStateSeen(name, state, False)

    def telemetry(self, name: str = "d0001") -> ev.Event:
        return ev.TelemetrySeen(name, Telemetry(f"{name}-c", self.now, 0, 0, 0, 0, 0), False)

    def batch(self, name: str, *told: dev.DeviceEvent) -> ev.Event:
        first = self.sequence[name] + 1
        self.sequence[name] += len(told)
        return ev.EventsArrived(name, dev.EventBatch(f"{name}-b", f"{name}-c", first, told))

    def input(self, run: str, item: int, model: Manifest) -> ev.Event:
        return ev.InputArrived(CLIENT, self.head(ActivationId(run, item, 0), model))

    def head(self, at: ActivationId, model: Manifest) -> FrameHead:
        tensors = tuple(
            TensorHead(name, Element.FLOAT, (1, 8)) for name in model.cuts[at.cut].names
        )
        return FrameHead(
            model.digest,
            at,
            0,
            exact=False,
            barrier=False,
            nbytes=100,
            raw_nbytes=32,
            tensors=tensors,
        )

    def placed(self) -> tuple[str, PartitionId]:
        """Who serves the first partition of the first model."""
        plan = self.machine.state.plans[self.models[0].digest, False]
        placement = plan.placements[0]
        assert placement.device is not None, "an item is in flight"
        return placement.device, placement.partition


NUMBERS = count
Kind = Callable[[Crowd], Iterator[ev.Event]]


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
    said = crowd.machine.state.published[crowd.placed()[0]]
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
SIZES: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "10 and 1,000 devices": ({"devices": 10}, {"devices": 1000}),
    "1 and 1,000 runs": ({"runs": 1}, {"runs": 1000}),
    "1 and 100 plans": ({"plans": 1}, {"plans": 100}),
}


@pytest.fixture(scope="module", params=SIZES)
def crowds(request: pytest.FixtureRequest) -> tuple[Crowd, Crowd]:
    small, large = SIZES[request.param]
    return Crowd(**small), Crowd(**large)


def cost_of(crowd: Crowd, kind: Kind) -> float:
    """The median of a few, with the time passing in between as little as may be."""
    events = kind(crowd)
    crowd.machine.handle(next(events), crowd.now)
    costs = []
    for _ in range(TIMES):
        event = next(events)
        costs.append(count_calls(lambda event=event: crowd.machine.handle(event, crowd.now)))
    return median(costs)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_costs_what_it_touches(crowds: tuple[Crowd, Crowd], kind: Kind) -> None:
    small, large = (cost_of(crowd, kind) for crowd in crowds)
    assert large <= MOST * small, f"{small:.0f} calls among few, {large:.0f} among many"


def test_a_broken_total_is_found() -> None:
    crowd = Crowd()
    crowd.machine.validate()
    crowd.machine.state.budget.spooled_nbytes += 1
    with pytest.raises(InvariantBroken, match="bytes of inputs on disk"):
        crowd.machine.validate()
