"""`devices/<d>/events`: what happened on a device, numbered per boot.

A batch is repeated until the orchestrator acknowledges its last sequence number; the reader
drops what it has seen. Durations are seconds on the device's own monotonic clock; `at_s` is that
clock's reading, comparable only through the offset that pings estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wire.frame_head import MAX_RANK, TensorHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages.residency import PartitionResidency

MADE_TOLD = 8  # the largest of what came out: in them lies what is too large


@dataclass(frozen=True, slots=True)
class FrameReceived:
    """A whole activation is held here (a repeat is reported again)."""

    type: ClassVar[str] = "frame_received"
    activation: ActivationId
    sender: str
    nbytes: int
    at_s: float


@dataclass(frozen=True, slots=True)
class TaskStarted:
    type: ClassVar[str] = "task_started"
    task: TaskId
    at_s: float


@dataclass(frozen=True, slots=True)
class TaskDone:
    """`parked`: no dependent was known, the output is kept here; else it goes to `to`. Bytes are
    of whole frames; raw bytes are of the tensors before encoding. `started_s`: when it was begun,
    on the clock of `at_s`, since its start may not have been told."""

    type: ClassVar[str] = "task_done"
    task: TaskId
    at_s: float
    waited_s: float
    decode_s: float
    compute_s: float
    encode_s: float
    input_nbytes: int
    output_nbytes: int
    output_raw_nbytes: int
    parked: bool = False
    to: str | None = None
    started_s: float | None = None


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """`made`: what came out, where its size is the fault."""

    type: ClassVar[str] = "task_failed"
    task: TaskId
    kind: str
    reason: str
    made: tuple[TensorHead, ...] = ()

    def __post_init__(self) -> None:
        if len(self.made) > MADE_TOLD:
            raise ValueError(f"{len(self.made)} tensors, of {MADE_TOLD} that may be told")
        for head in self.made:
            if len(head.shape) > MAX_RANK or min(head.shape, default=0) < 0:
                raise ValueError("a shape that no tensor has")


@dataclass(frozen=True, slots=True)
class FrameDropped:
    """An activation was given up here; the orchestrator has it sent again. `sender`: whose copy
    it was, if one had come."""

    type: ClassVar[str] = "frame_dropped"
    activation: ActivationId
    kind: str
    reason: str
    sender: str = ""


@dataclass(frozen=True, slots=True)
class PartitionLoaded:
    """`fetch_s` and `fetched_nbytes` cover what was missing; both 0 when all was cached.
    `prepare_s` is what the device did once for this and every later load; `load_s` is without."""

    type: ClassVar[str] = "partition_loaded"
    partition: PartitionId
    tier: int
    streamed: bool
    at_s: float
    fetch_s: float
    fetched_nbytes: int
    load_s: float
    rss_nbytes: int
    rss_before_nbytes: int
    prepare_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PartitionEvicted:
    type: ClassVar[str] = "partition_evicted"
    partition: PartitionId
    at_s: float
    evict_s: float
    rss_nbytes: int


@dataclass(frozen=True, slots=True)
class FetchStarted:
    type: ClassVar[str] = "fetch_started"
    partition: PartitionId
    at_s: float
    missing_nbytes: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything held here now: the answer to `report`, and said by itself after a (re)connect
    and on a new generation. `outputs` are what sends can be asked of; `inputs` what waits or runs;
    `cached` the digests of blobs on disk."""

    type: ClassVar[str] = "inventory"
    generation: int
    revision: int
    outputs: tuple[ActivationId, ...]
    inputs: tuple[ActivationId, ...]
    running: TaskId | None
    cached: tuple[str, ...]
    partitions: tuple[PartitionResidency, ...]


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers a ping; `at_s` is this device's clock."""

    type: ClassVar[str] = "pong"
    nonce: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Profiled:
    """Measured compute of one partition per segment, in seconds."""

    type: ClassVar[str] = "profiled"
    partition: PartitionId
    segment_s: tuple[float, ...]


DeviceEvent = (
    FrameReceived
    | TaskStarted
    | TaskDone
    | TaskFailed
    | FrameDropped
    | PartitionLoaded
    | PartitionEvicted
    | FetchStarted
    | Inventory
    | Pong
    | Profiled
)


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events `first_seq`, `first_seq + 1`, … of one boot, starting at 1.

    `gone`: that many numbers right before `first_seq` will never come (again): acknowledged, if
    only to an orchestrator of before; dropped at the log's bound, as they only informed; or an
    inventory that a newer one superseded.
    """

    boot: str
    connection: str
    first_seq: int
    events: tuple[DeviceEvent, ...]
    gone: int = 0

    @property
    def last_seq(self) -> int:
        return self.first_seq + len(self.events) - 1
