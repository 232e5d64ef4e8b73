"""What happened, as the agent's shell tells its machine: past tense, one class each.

Bytes never enter the machine: a frame is its head, a blob its digest. The bytes lie with the
shell under that name until the machine says to forget them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wire.frame_head import FrameHead as FrameHead
from wire.frame_head import TensorHead
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages.assignment import Assignment
from wire.messages.commands import CommandBatch
from wire.messages.state import DeviceState, LastWork, OrchestratorState
from wire.messages.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Started:
    """First event: what is cached on disk (digest to bytes, each verified once before), who we are
    in this boot, and what the boot before was at when it ended, if it noted that. `generation` is
    the highest that boots before obeyed, as far as they noted it."""

    boot: str
    cached: dict[str, int]
    last_work: LastWork | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker accepted us under a fresh `connection` id; `reconnect` if not for the first time
    in this boot. `own_state` is our retained state as it was, if there was one."""

    connection: str
    reconnect: bool
    own_state: DeviceState | None


@dataclass(frozen=True, slots=True)
class StateCleared:
    """Our retained state was cleared while we are connected: somebody believed us gone."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    reason: str


@dataclass(frozen=True, slots=True)
class OrchestratorSeen:
    state: OrchestratorState
    retained: bool


OrderFault = Literal["unsigned", "forged"]


@dataclass(frozen=True, slots=True)
class OrderRefused:
    """Something came on a topic of the desk's that the desk did not sign; it was not read."""

    fault: OrderFault


@dataclass(frozen=True, slots=True)
class AssignmentArrived:
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class CommandsArrived:
    batch: CommandBatch


@dataclass(frozen=True, slots=True)
class FrameArrived:
    """A whole frame lies in the spool as an input under its activation, as its sender's copy.
    `number`: of inputs that were put there, this is so manieth."""

    head: FrameHead
    sender: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class FrameLost:
    """A frame was refused or its parts timed out before it was whole; nothing lies in the spool.
    Of kind `NO_ROOM`: the spool is at its bound. `sender`: whose it was."""

    activation: ActivationId
    kind: str
    reason: str
    sender: str = ""


@dataclass(frozen=True, slots=True)
class FetchProgressed:
    """`nbytes` of this blob are on disk by now."""

    digest: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class BlobFetched:
    """The blob is on disk under its digest, which was checked while it was written."""

    digest: str
    nbytes: int
    fetch_s: float


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """`retryable`: the store or the link failed, not the blob."""

    digest: str
    kind: str
    reason: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class BlobsRemoved:
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SegmentsPrepared:
    """What a load, whatever came of it, prepared on disk: bytes by name."""

    prepared: dict[str, int]


@dataclass(frozen=True, slots=True)
class PartitionReady:
    """The partition is loaded. `load_s` is without `prepare_s`, which preparing segments for this
    and every later load took."""

    number: int
    partition: PartitionId
    streamed: bool
    load_s: float
    rss_before_nbytes: int
    rss_nbytes: int
    prepare_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadRefused:
    """Loading failed or was refused; nothing of the partition is in memory. `corrupt` lists blobs
    found to be rotten: they are gone from the cache."""

    number: int
    partition: PartitionId
    kind: str
    reason: str
    corrupt: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionGone:
    """The partition is out of memory, and the memory given back to the system."""

    number: int
    partition: PartitionId
    evict_s: float
    rss_nbytes: int


@dataclass(frozen=True, slots=True)
class TaskExecuted:
    """The output lies in the spool as an output under `task.makes`. `emitted` is the frame's
    head there. `began_s` is when its turn came, on the machine's clock; None: when it was told."""

    number: int
    task: TaskId
    emitted: FrameHead
    decode_s: float
    compute_s: float
    encode_s: float
    segment_s: tuple[float, ...]
    began_s: float | None = None


@dataclass(frozen=True, slots=True)
class ExecutionFailed:
    """`fatal`: the partition itself is unusable and has left memory (not this input's fault).
    `made`: what came out, if its size is the fault."""

    number: int
    task: TaskId
    kind: str
    reason: str
    fatal: bool = False
    made: tuple[TensorHead, ...] = ()


@dataclass(frozen=True, slots=True)
class TelemetryRead:
    """Fresh readings; the machine fills in its queue and decides whether to publish."""

    readings: Telemetry


@dataclass(frozen=True, slots=True)
class Ticked:
    """The time that `wake_at` asked for has come."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A person or the system asks the agent to end: drain, say farewell, stop."""

    reason: str


Side = Literal["input", "output"]
NO_ROOM = "spool_full"

Answer = PartitionReady | LoadRefused | PartitionGone | TaskExecuted | ExecutionFailed
"""What a Load, Unload or Execute came to; `number` is the instruction's."""


Event = (
    Started
    | Connected
    | StateCleared
    | Disconnected
    | OrchestratorSeen
    | OrderRefused
    | AssignmentArrived
    | CommandsArrived
    | FrameArrived
    | FrameLost
    | FetchProgressed
    | BlobFetched
    | FetchFailed
    | BlobsRemoved
    | SegmentsPrepared
    | PartitionReady
    | LoadRefused
    | PartitionGone
    | TaskExecuted
    | ExecutionFailed
    | TelemetryRead
    | Ticked
    | StopAsked
)
