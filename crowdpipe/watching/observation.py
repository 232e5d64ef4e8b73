"""What a watcher learns about a fleet from its public topics, and nothing more.

`see` takes topic, payload and arrival time and keeps what figures and pictures need: any MQTT
client that may read `crowdpipe/#` could do the same. Opens no connection (`watcher` does), and
reads no binary frame.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from wire.errors import CrowdpipeError
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages.events import (
    DeviceEvent,
    EventBatch,
    FetchStarted,
    FrameDropped,
    FrameReceived,
    PartitionEvicted,
    PartitionLoaded,
    TaskDone,
    TaskFailed,
    TaskStarted,
)
from wire.messages.model import ModelSummary
from wire.messages.progress import RunProgress
from wire.messages.residency import Residency
from wire.messages.state import DeviceState, OrchestratorState
from wire.messages.telemetry import Telemetry
from wire.record import decode
from wire.topics import Topics

SpanKind = Literal["compute", "load", "fetch", "evict"]


@dataclass(frozen=True, slots=True)
class Span:
    """Something a device did, in seconds of its own clock until `Observation.spans` shifts it."""

    device: str
    kind: SpanKind
    first: int
    last: int
    start_s: float
    end_s: float
    run: str | None = None
    item: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class ObservedLoad:
    """One time that a partition came into memory."""

    first: int
    last: int
    tier: int
    streamed: bool
    fetch_s: float
    fetched_nbytes: int
    load_s: float


@dataclass
class Boot:
    """One life of an agent's process: its clock and its event numbers begin anew."""

    seen: set[int] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)
    clock_offset_s: float | None = None
    task_starts: dict[TaskId, float] = field(default_factory=dict)
    arrivals: set[ActivationId] = field(default_factory=set)  # of tasks whose end was not told yet
    fetch_starts: dict[PartitionId, float] = field(default_factory=dict)

    def shifted(self) -> list[Span]:
        """The spans on the watcher's clock; none if no reading of this boot's clock came."""
        shift = self.clock_offset_s
        if shift is None:
            return []
        return [
            replace(span, start_s=span.start_s + shift, end_s=span.end_s + shift)
            for span in self.spans
        ]


@dataclass
class DeviceRecord:
    """Everything seen of one device. Counters are sums over all its boots."""

    name: str
    state: DeviceState | None = None
    residency: Residency | None = None
    telemetry: Telemetry | None = None
    rss_peak_nbytes: int = 0
    rss_floor_nbytes: int = 0
    loads: list[ObservedLoad] = field(default_factory=list)
    tasks: int = 0
    failures: int = 0
    drops: int = 0
    evictions: int = 0
    received_nbytes: int = 0
    sent_nbytes: int = 0
    sent_raw_nbytes: int = 0
    compute_s: float = 0.0
    waited_s: float = 0.0
    boots: dict[str, Boot] = field(default_factory=dict)

    @property
    def served(self) -> tuple[tuple[int, int], ...]:
        """The ranges of segments that it has loaded, each once, in order of the model."""
        return tuple(sorted({(load.first, load.last) for load in self.loads}))

    @property
    def fetch_s(self) -> float:
        return sum(load.fetch_s for load in self.loads)

    @property
    def fetched_nbytes(self) -> int:
        return sum(load.fetched_nbytes for load in self.loads)

    @property
    def load_s(self) -> float:
        return sum(load.load_s for load in self.loads)


class Observation:
    """Fed by a watcher; not safe to share between threads without a lock."""

    def __init__(self, topics: Topics | None = None) -> None:
        self._topics = Topics() if topics is None else topics
        self.devices: dict[str, DeviceRecord] = {}
        self.orchestrator: OrchestratorState | None = None
        self.models: dict[str, ModelSummary] = {}
        self.runs: dict[str, RunProgress] = {}
        self.unreadable: list[str] = []

    def see(self, topic: str, payload: bytes, now: float) -> None:
        """Take in one message; what cannot be read is noted in `unreadable`, not raised, since
        one broken device must not blind the watcher to the others."""
        try:
            self._take(topic, payload, now)
        except CrowdpipeError as error:
            self.unreadable.append(f"{topic}: {error}")

    def _take(self, topic: str, payload: bytes, now: float) -> None:
        parsed = self._topics.parse(topic)
        if not payload:  # an empty retained message: forgotten
            self.models.pop(parsed.variables.get("m", ""), None)
            return
        if parsed.name == "run":
            progress: RunProgress = decode(RunProgress, payload)
            self.runs[progress.run] = progress
        elif parsed.name == "model":
            summary: ModelSummary = decode(ModelSummary, payload)
            self.models[summary.name] = summary
        elif parsed.name == "orchestrator_state":
            self.orchestrator = decode(OrchestratorState, payload)
        elif "d" in parsed.variables:
            self._take_device(parsed.name, self._device(parsed.variables["d"]), payload, now)

    def _device(self, name: str) -> DeviceRecord:
        return self.devices.setdefault(name, DeviceRecord(name))

    def _take_device(self, row: str, device: DeviceRecord, payload: bytes, now: float) -> None:
        if row == "device_state":
            device.state = decode(DeviceState, payload)
        elif row == "residency":
            device.residency = decode(Residency, payload)
        elif row == "telemetry":
            device.telemetry = decode(Telemetry, payload)
            _take_telemetry(device, device.telemetry)
        elif row == "events":
            _take_batch(device, decode(EventBatch, payload), now)

    def spans(self) -> list[Span]:
        """All spans on the watcher's clock, in the order they began."""
        boots = [boot for device in self.devices.values() for boot in device.boots.values()]
        return sorted((span for boot in boots for span in boot.shifted()), key=_start)


def _start(span: Span) -> float:
    return span.start_s


def _take_telemetry(device: DeviceRecord, telemetry: Telemetry) -> None:
    device.rss_peak_nbytes = max(device.rss_peak_nbytes, telemetry.rss_peak_nbytes)
    device.rss_floor_nbytes = telemetry.rss_floor_nbytes or device.rss_floor_nbytes


def _take_batch(device: DeviceRecord, batch: EventBatch, now: float) -> None:
    """Each event once: a batch is repeated until the orchestrator has acknowledged it."""
    boot = device.boots.setdefault(batch.boot, Boot())
    for seq, event in enumerate(batch.events, batch.first_seq):
        if seq not in boot.seen:
            boot.seen.add(seq)
            _estimate_clock(boot, event, now)
            _take_event(device, boot, event)


def _estimate_clock(boot: Boot, event: DeviceEvent, now: float) -> None:
    """The least of (arrival - reading) over all events: what took least time on the way."""
    at_s = getattr(event, "at_s", None)
    if at_s is not None:
        known = boot.clock_offset_s
        boot.clock_offset_s = now - at_s if known is None else min(known, now - at_s)


def _take_event(device: DeviceRecord, boot: Boot, event: DeviceEvent) -> None:
    """Inventories, pongs and profiles are between agent and orchestrator: nothing to take."""
    match event:
        case FrameReceived():
            device.received_nbytes += event.nbytes
            boot.arrivals.add(event.activation)
        case TaskStarted():
            boot.task_starts[event.task] = event.at_s
        case TaskDone():
            _take_done(device, boot, event)
        case TaskFailed():
            device.failures += 1
            boot.arrivals.discard(event.task.needs)
        case FrameDropped():
            device.drops += 1
            boot.arrivals.discard(event.activation)
        case FetchStarted():
            boot.fetch_starts[event.partition] = event.at_s
        case PartitionLoaded():
            _take_load(device, boot, event)
        case PartitionEvicted():
            device.evictions += 1
            begun = event.at_s - event.evict_s
            boot.spans.append(_span(device, "evict", event.partition, begun, event.at_s))


def _take_done(device: DeviceRecord, boot: Boot, event: TaskDone) -> None:
    task = event.task
    begun = _begun(boot, event)
    _take_untold_arrival(device, boot, event)
    device.tasks += 1
    device.sent_nbytes += event.output_nbytes
    device.sent_raw_nbytes += event.output_raw_nbytes
    device.compute_s += event.compute_s
    device.waited_s += event.waited_s
    boot.spans.append(
        Span(device.name, "compute", task.first, task.last, begun, event.at_s, task.run, task.item)
    )


def _begun(boot: Boot, event: TaskDone) -> float:
    told = boot.task_starts.pop(event.task, None)
    if event.started_s is not None:
        return event.started_s
    busy_s = event.decode_s + event.compute_s + event.encode_s
    return event.at_s - busy_s if told is None else told


def _take_untold_arrival(device: DeviceRecord, boot: Boot, event: TaskDone) -> None:
    """A device leaves out that an input came where it tells at once that the task is done."""
    if event.task.needs in boot.arrivals:
        boot.arrivals.remove(event.task.needs)
    else:
        device.received_nbytes += event.input_nbytes


def _take_load(device: DeviceRecord, boot: Boot, event: PartitionLoaded) -> None:
    partition = event.partition
    load = ObservedLoad(
        partition.first,
        partition.last,
        event.tier,
        event.streamed,
        event.fetch_s,
        event.fetched_nbytes,
        event.load_s,
    )
    device.loads.append(load)
    begun = event.at_s - event.load_s
    boot.spans.append(_span(device, "load", partition, begun, event.at_s, f"tier {event.tier}"))
    if event.fetched_nbytes:
        fetched_from = boot.fetch_starts.pop(partition, begun - event.fetch_s)
        fetched_until = fetched_from + event.fetch_s
        note = f"{event.fetched_nbytes} bytes"
        boot.spans.append(_span(device, "fetch", partition, fetched_from, fetched_until, note))


def _span(
    device: DeviceRecord,
    kind: SpanKind,
    partition: PartitionId,
    start_s: float,
    end_s: float,
    note: str = "",
) -> Span:
    return Span(device.name, kind, partition.first, partition.last, start_s, end_s, note=note)
