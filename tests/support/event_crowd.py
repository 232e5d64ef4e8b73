"""A machine of the orchestrator's with many devices, runs and plans, and what an event costs it.

No clock: calls of Python and C functions are counted, each kind of event several times, and the
median of a large machine may be `MOST` times that of a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from statistics import median

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.calls import count_calls
from tests.support.planner_beside import answered
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.elements import Element
from wire.frame_head import FrameHead, TensorHead
from wire.ids import ActivationId, PartitionId
from wire.manifest import Manifest
from wire.messages import events as dev
from wire.messages import requests as req
from wire.messages.state import Capabilities, DeviceState
from wire.messages.telemetry import Telemetry

MOST = 1.5
TIMES = 5  # of each kind, one after another
CLIENT = "clients/ann/s1"
MANY = 1_000_000
OPTIONS = OrchestratorOptions(  # one client has all of the runs, and asks for them at once
    party_runs=MANY, user_runs=MANY, user_kept_runs=MANY, asks_burst=MANY, words_burst=MANY
)
ABLE = Capabilities(100 * MB, 1000 * MB, 400 * MB, 4, "x86_64", "1.30", 21)


class Crowd:
    """A machine with devices, plans and runs; `next` gives a fresh event of each kind.

    Of the devices all are alive and the first two serve what `busy` computes; `idle` runs were
    accepted and have no items. Each of the plans has one run with an item in flight.
    """

    def __init__(self, *, devices: int = 10, runs: int = 1, plans: int = 1) -> None:
        self.now = 100.0
        self.machine = OrchestratorMachine(OPTIONS)
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
        return [*out, *self.answer(out)]

    def answer(self, told: list[ins.Instruction]) -> list[ins.Instruction]:
        searches = [each for each in told if isinstance(each, ins.SearchPlan)]
        return [each for search in searches for each in self.tell(answered(search))]

    def cost(self, event: ev.Event) -> int:
        """In calls; what the event asks for afterwards is not counted."""
        told: list[ins.Instruction] = []
        calls = count_calls(lambda: told.extend(self.machine.handle(event, self.now)))
        self.answer(told)
        return calls

    def asked(self, event: ev.Event) -> ev.PlanSearched:
        """The answer to the one search that the event asks for, which the machine waits for."""
        (search,) = [
            each
            for each in self.machine.handle(event, self.now)
            if isinstance(each, ins.SearchPlan)
        ]
        return answered(search)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (wake := self.machine.wake_at()) is not None and wake <= end:
            self.now = max(self.now, wake)
            self.tell(ev.Ticked())
        self.now = end

    def add(self, name: str) -> Manifest:
        """One more model, which nobody serves."""
        model = tiny_manifest(name, weights=[10 * MB] * 3)
        self.tell(ev.ModelAdded(model))
        return model

    def meet(self, name: str, cost_per_s: float | None = None, able: Capabilities = ABLE) -> None:
        """One more device; a fast one gets whole models that come after it."""
        self.sequence[name] = 0
        self.tell(self.birth(name, able))
        told = Telemetry(f"{name}-c", self.now, 0, 0, 0, 0, 0, cost_per_s=cost_per_s)
        self.tell(ev.TelemetrySeen(name, told, False))

    def begin(self, run: str, model: Manifest) -> None:
        self.tell(self.submit(run, model))
        self.tell(ev.RunStored(run))

    def store(self, run: str, item: int, model: Manifest) -> None:
        self.tell(self.input(run, item, model))
        self.tell(ev.InputStored(run, item))

    def end(self, run: str, item: int, model: Manifest) -> None:
        """The item has its result."""
        device = self.machine.state.plans[model.digest, False].placements[-1].device
        assert device is not None, "it is in flight"
        at = ActivationId(run, item, len(model.segments))
        self.tell(ev.ResultArrived(device, self.head(at, model)))
        self.tell(ev.OutcomeStored(run, ev.Outcome(item)))

    # --- events -------------------------------------------------------------------------------

    def birth(self, name: str, able: Capabilities = ABLE) -> ev.Event:
        state = DeviceState("online", f"{name}-c", f"{name}-b", "0", 1, able)
        return ev.DeviceStateSeen(name, state, False)

    def submit(self, run: str, model: Manifest) -> ev.Event:
        return ev.RequestArrived(CLIENT, req.Submit(run, model.name))

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
Sizes = tuple[dict[str, int], dict[str, int]]
SIZES: dict[str, Sizes] = {
    "10 and 1,000 devices": ({"devices": 10}, {"devices": 1000}),
    "1 and 1,000 runs": ({"runs": 1}, {"runs": 1000}),
    "1 and 100 plans": ({"plans": 1}, {"plans": 100}),
}
# Where a device is chosen, all of few are ranked, and of many no more than 64.
RANKED_SIZES = {
    "100 and 1,000 devices": ({"devices": 100}, {"devices": 1000}),
    **{name: sizes for name, sizes in SIZES.items() if "devices" not in name},
}


def cost_of(crowd: Crowd, kind: Kind) -> float:
    """The median of a few, with the time passing in between as little as may be."""
    events = kind(crowd)
    crowd.tell(next(events))
    return median(crowd.cost(next(events)) for _ in range(TIMES))


def crowds_of(sizes: Sizes) -> Iterator[tuple[Crowd, Crowd]]:
    """For a fixture: afterwards, all totals and indices must still be right."""
    small, large = sizes
    crowds = Crowd(**small), Crowd(**large)
    yield crowds
    for crowd in crowds:
        crowd.machine.validate()


def assert_alike(kind: Kind, crowds: tuple[Crowd, Crowd]) -> None:
    """It costs no more than `MOST` times as much in the larger crowd."""
    small, large = (cost_of(crowd, kind) for crowd in crowds)
    assert large <= MOST * small, f"{small:.0f} calls among few, {large:.0f} among many"
