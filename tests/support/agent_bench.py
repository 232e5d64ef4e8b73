"""An agent's machine on a bench: short words for the events that its shell would bring."""

from __future__ import annotations

from typing import TypeVar

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from wire.frame_head import FrameHead
from wire.ids import ActivationId, PartitionId, TaskId, digest_of
from wire.manifest import BlobRef
from wire.messages.assignment import Assignment, Limits, PartitionAssignment, Route, SegmentRef
from wire.messages.commands import Command, CommandBatch
from wire.messages.events import DeviceEvent
from wire.messages.residency import PartitionResidency
from wire.messages.state import Capabilities, DeviceState, OrchestratorState
from wire.messages.telemetry import Telemetry

MODEL = digest_of(b"model")
MIB = 1 << 20
Kind = TypeVar("Kind")


def blob(name: str, nbytes: int = 100) -> BlobRef:
    return BlobRef(digest_of(name.encode()), nbytes)


def segment(index: int, weight_nbytes: int = 1000, model: str = MODEL) -> SegmentRef:
    return SegmentRef(
        index=index,
        graph=blob(f"{model} graph {index}", 100),
        weights=(blob(f"{model} weights {index} {weight_nbytes}", weight_nbytes),),
        inputs=("x",),
        outputs=("x",),
        peak_activation_nbytes=64,
        cost=1.0,
    )


def partition(
    first: int,
    last: int,
    *,
    model: str = MODEL,
    exact: bool = False,
    weight_nbytes: int = 1000,
    tier: int = 3,
    accepts_nbytes: int = 10_000,
    emits_nbytes: int = 10_000,
    senders: tuple[str, ...] | None = None,
) -> PartitionAssignment:
    return PartitionAssignment(
        partition=PartitionId(model, exact, first, last),
        model_name="tiny",
        tier=tier,
        segments=tuple(segment(i, weight_nbytes, model) for i in range(first, last + 1)),
        accepts_nbytes=accepts_nbytes,
        emits=("x",),
        emits_nbytes=emits_nbytes,
        senders=senders,
    )


def route(cut: int, *dependents: str, model: str = MODEL, exact: bool = False) -> Route:
    return Route(model, exact, cut, dependents)


def head(
    item: int,
    cut: int = 0,
    *,
    run: str = "r",
    attempt: int = 0,
    model: str = MODEL,
    exact: bool = False,
    barrier: bool = False,
    nbytes: int = 500,
    raw_nbytes: int = 600,
) -> FrameHead:
    return FrameHead(
        model,
        ActivationId(run, item, cut),
        attempt,
        exact=exact,
        barrier=barrier,
        nbytes=nbytes,
        raw_nbytes=raw_nbytes,
    )


def readings(**values: float | bool | None) -> Telemetry:
    plain: dict[str, object] = {
        "connection": "",
        "uptime_s": 1.0,
        "rss_nbytes": MIB,
        "rss_peak_nbytes": MIB,
        "rss_floor_nbytes": MIB,
        "queue_depth": 0,
        "held_nbytes": 0,
    }
    return Telemetry(**(plain | values))  # type: ignore[arg-type]  # mixed values


CAPABILITIES = Capabilities(
    memory_budget_nbytes=64 * MIB,
    disk_budget_nbytes=100_000,
    hold_nbytes=100_000,
    cores=2,
    architecture="x86_64",
    runtime_version="1.20",
    max_opset=20,
)


class Bench:
    """Keeps every instruction in `told` and every event once in `events`; `now` only rises.
    Every invariant is checked after every event, if `validated`."""

    def __init__(
        self,
        capabilities: Capabilities = CAPABILITIES,
        limits: AgentLimits | None = None,
        cached: dict[str, int] | None = None,
        *,
        validated: bool = True,
        obeyed: int = 0,
    ) -> None:
        at_once = AgentLimits(gather_s=0.0, gather_busy_s=0.0)
        self.machine = AgentMachine("phone", capabilities, limits or at_once)
        self.now = 100.0
        self.told: list[told.Instruction] = []
        self.last: list[told.Instruction] = []
        self.events: list[DeviceEvent] = []
        self.fetching: list[BlobRef] = []
        self.revision = 0
        self.connections = 0
        self.begun: told.Load | told.Unload | told.Execute | None = None
        self._seen = 0
        self._validated = validated
        self.do(happened.Started("boot1", cached or {}, None, obeyed))

    def do(self, event: happened.Event) -> list[told.Instruction]:
        if isinstance(event, (happened.BlobFetched, happened.FetchFailed)):
            self.fetching = [ref for ref in self.fetching if ref.digest != event.digest]
        self.last = self.machine.handle(event, self.now)
        if self._validated:
            self.machine.validate()
        self.told += self.last
        for instruction in self.last:
            if isinstance(instruction, (told.Load, told.Unload, told.Execute)):
                self.begun = instruction
        self.fetching += [fetch.blob for fetch in self.all_last(told.FetchBlob)]
        for batch in self.all_last(told.PublishEvents):
            for seq, entry in enumerate(batch.batch.events, batch.batch.first_seq):
                if seq > self._seen:
                    self._seen = seq
                    self.events.append(entry)
        return self.last

    def all_last(self, kind: type[Kind]) -> list[Kind]:
        return [entry for entry in self.last if isinstance(entry, kind)]

    def the_last(self, kind: type[Kind]) -> Kind:
        (only,) = self.all_last(kind)
        return only

    def all_told(self, kind: type[Kind]) -> list[Kind]:
        return [entry for entry in self.told if isinstance(entry, kind)]

    def reported(self, kind: type[Kind]) -> list[Kind]:
        return [entry for entry in self.events if isinstance(entry, kind)]

    @property
    def last_seq(self) -> int:
        return self._seen

    def wait(self, seconds: float) -> list[told.Instruction]:
        self.now += seconds
        return self.do(happened.Ticked())

    def connect(self, own_state: DeviceState | None = None) -> list[told.Instruction]:
        self.connections += 1
        again = self.connections > 1
        return self.do(happened.Connected(f"c{self.connections}", again, own_state))

    def orchestrator(self, generation: int, connection: str = "o1") -> list[told.Instruction]:
        state = OrchestratorState("online", connection, "oboot", generation, "0", 1)
        return self.do(happened.OrchestratorSeen(state, False))

    def assign(
        self,
        *partitions: PartitionAssignment,
        routes: tuple[Route, ...] = (),
        limits: Limits | None = None,
        generation: int = 1,
        revision: int | None = None,
    ) -> list[told.Instruction]:
        self.revision = self.revision + 1 if revision is None else revision
        return self.do(
            happened.AssignmentArrived(
                Assignment(
                    generation,
                    self.revision,
                    "http://store",
                    partitions,
                    routes,
                    limits or Limits(),
                )
            )
        )

    def command(self, *commands: Command, generation: int = 1) -> list[told.Instruction]:
        return self.do(happened.CommandsArrived(CommandBatch(generation, commands)))

    def arrive(
        self, *args: int, sender: str = "orchestrator", **kwargs: object
    ) -> list[told.Instruction]:
        frame = head(*args, **kwargs)  # type: ignore[arg-type]  # passed on as given
        return self.do(happened.FrameArrived(frame, sender))

    def fetched(self, blob_ref: BlobRef) -> list[told.Instruction]:
        return self.do(happened.BlobFetched(blob_ref.digest, blob_ref.nbytes, 0.1))

    def fetch_all(self) -> list[BlobRef]:
        """Answer every fetch that is or becomes due; gives them in order."""
        answered: list[BlobRef] = []
        while self.fetching:
            answered.append(self.fetching[0])
            self.fetched(self.fetching[0])
        return answered

    def ready(
        self, assigned: PartitionAssignment, streamed: bool = False
    ) -> list[told.Instruction]:
        return self.do(
            happened.PartitionReady(self.number, assigned.partition, streamed, 0.2, MIB, 2 * MIB)
        )

    def gone(self, assigned: PartitionAssignment) -> list[told.Instruction]:
        return self.do(happened.PartitionGone(self.number, assigned.partition, 0.01, MIB))

    def executed(self, task: TaskId, nbytes: int = 400) -> list[told.Instruction]:
        emitted = head(task.item, task.last + 1, run=task.run, nbytes=nbytes)
        return self.do(happened.TaskExecuted(self.number, task, emitted, 0.01, 0.1, 0.02, (0.1,)))

    def failed(self, task: TaskId, fatal: bool = False) -> list[told.Instruction]:
        return self.do(
            happened.ExecutionFailed(self.number, task, "compute_failed", "bad shape", fatal)
        )

    def serve(self, *partitions: PartitionAssignment, routes: tuple[Route, ...] = ()) -> None:
        """Connected, assigned, fetched, and the first of the partitions is resident."""
        self.connect()
        self.assign(*partitions, routes=routes)
        self.fetch_all()
        self.ready(partitions[0])

    @property
    def number(self) -> int:
        """Of the last load, eviction or task."""
        assert self.begun is not None
        return self.begun.number

    @property
    def running(self) -> TaskId:
        """The first of the tasks that were begun last, and nothing since."""
        assert isinstance(self.begun, told.Execute)
        return self.begun.task

    def residency(self, assigned: PartitionAssignment) -> PartitionResidency:
        """As last published."""
        residency = self.all_told(told.PublishResidency)[-1].residency
        return next(r for r in residency.partitions if r.partition == assigned.partition)
