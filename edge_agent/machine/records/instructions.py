"""What the agent's machine instructs its shell to do, in order.

Whatever takes time is answered by an event: `FetchBlob` by `BlobFetched` or `FetchFailed`, `Load`
by `PartitionReady` or `LoadRefused`, `Unload` by `PartitionGone`, each task of an `Execute` by
`TaskExecuted` or `ExecutionFailed`, `RemoveBlobs` by `BlobsRemoved`. At most one of Load, Unload
and Execute is under way at a time, and at most one FetchBlob per digest. Load, Unload and Execute
are numbered, and their answers carry the number back.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.machine.records.events import Side
from wire.ids import ActivationId, PartitionId, TaskId
from wire.manifest import BlobRef
from wire.messages.assignment import Assignment, PartitionAssignment
from wire.messages.events import EventBatch
from wire.messages.residency import Residency
from wire.messages.state import DeviceState
from wire.messages.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class FetchBlob:
    """Fetch what is missing of a blob, resuming what is there, digest checked while writing."""

    blob: BlobRef
    store_base: str

    @property
    def digest(self) -> str:
        return self.blob.digest


@dataclass(frozen=True, slots=True)
class CancelFetch:
    """Stop fetching; what was written stays for a later resume. Answered by `FetchFailed` with
    kind `cancelled`, or by `BlobFetched` if it was done already."""

    digest: str


@dataclass(frozen=True, slots=True)
class RemoveBlobs:
    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Load:
    """Load a partition whose blobs are all cached. The shell refuses with `over_budget` rather
    than exceed `budget_nbytes`; `streamed`: keep only one segment's weights in memory. What it
    prepares on disk may take `prepare_nbytes`, and is reported by `SegmentsPrepared`."""

    number: int
    assigned: PartitionAssignment
    streamed: bool
    budget_nbytes: int
    prepare_nbytes: int = 0

    @property
    def partition(self) -> PartitionId:
        return self.assigned.partition


@dataclass(frozen=True, slots=True)
class Unload:
    number: int
    partition: PartitionId


@dataclass(frozen=True, slots=True)
class TaskInput:
    """A task, and whose copy of its input in the spool it takes."""

    task: TaskId
    sender: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Run these tasks on the loaded partition one after another, outputs into the spool. Each is
    answered, but none after one that failed for good: that one took the partition with it."""

    number: int
    assigned: PartitionAssignment
    group: tuple[TaskInput, ...]

    @property
    def task(self) -> TaskId:
        """The first of them."""
        return self.group[0].task


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Publish a held output to `<to>/from/<us>`, in parts if it is large."""

    activation: ActivationId
    to: str


@dataclass(frozen=True, slots=True)
class ForgetFrame:
    """Remove a frame from the spool, and do not send it any more. Of an input only the copy of
    `sender`; None: all copies; and none that came after input `number`: that one's arrival is
    still to be judged, or was since."""

    activation: ActivationId
    side: Side
    sender: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class ObeyAssignment:
    """This assignment is served from now on; the shell takes the limit of reassembly from it."""

    assignment: Assignment


@dataclass(frozen=True, slots=True)
class RememberGeneration:
    """A desk of this generation is obeyed: what is older counts as old after a restart too."""

    generation: int


@dataclass(frozen=True, slots=True)
class PublishState:
    state: DeviceState


@dataclass(frozen=True, slots=True)
class PublishResidency:
    residency: Residency


@dataclass(frozen=True, slots=True)
class PublishEvents:
    batch: EventBatch


@dataclass(frozen=True, slots=True)
class PublishTelemetry:
    telemetry: Telemetry


@dataclass(frozen=True, slots=True)
class StayDisconnected:
    """Another agent took our identity: disconnect without a will and end with this error."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """ONNX Runtime never answered and cannot be stopped: disconnect orderly and end the process
    with this error, whatever its threads do."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Everything is published: disconnect orderly and end."""

    reason: str


Instruction = (
    FetchBlob
    | CancelFetch
    | RemoveBlobs
    | Load
    | Unload
    | Execute
    | SendFrame
    | ForgetFrame
    | ObeyAssignment
    | RememberGeneration
    | PublishState
    | PublishResidency
    | PublishEvents
    | PublishTelemetry
    | StayDisconnected
    | GiveUp
    | Stop
)

_SHOWN = ("task", "partition", "digest", "activation", "side", "to", "reason")


def in_words(instruction: Instruction) -> str:
    """As logs show it: what is to be done, and to what."""
    shown = [str(getattr(instruction, name)) for name in _SHOWN if hasattr(instruction, name)]
    if isinstance(instruction, Execute) and len(instruction.group) > 1:
        shown.append(f"and {len(instruction.group) - 1} more")
    return " ".join([type(instruction).__name__, *shown])
