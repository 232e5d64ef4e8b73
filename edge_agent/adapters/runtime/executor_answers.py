"""What the executor is given to load, and how it answers: what loading and tasks came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from wire.errors import CrowdpipeError
from wire.frame_head import FrameHead
from wire.ids import PartitionId, TaskId
from wire.messages.assignment import PartitionAssignment


@dataclass(frozen=True, slots=True)
class Loaded:
    """What loading took. `rss_before_nbytes` has ONNX Runtime in it already. `load_s` is without
    `prepare_s`, the seconds that preparing segments for the first time took."""

    streamed: bool
    load_s: float
    rss_before_nbytes: int
    rss_nbytes: int
    prepare_s: float


@dataclass(frozen=True, slots=True)
class Executed:
    """What one task made, when its turn came (`time.monotonic`), and how long it took. Seconds per
    segment, streaming included."""

    emitted: FrameHead
    began_s: float
    decode_s: float
    compute_s: float
    encode_s: float
    segment_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LoadJob:
    """To be in memory within `budget_nbytes`; preparing may take `prepare_nbytes` on disk."""

    number: int
    assigned: PartitionAssignment
    streamed: bool
    budget_nbytes: int
    prepare_nbytes: int

    @property
    def partition(self) -> PartitionId:
        return self.assigned.partition


class ExecutorListener(Protocol):
    """Called in the executor's thread. `number` is that of the job that is answered; `ended` comes
    if none will be answered any more. What came of tasks is noted at once, and looked for after
    `told`, or sooner if something else happens."""

    def segments_prepared(self, prepared: dict[str, int]) -> None: ...
    def partition_ready(self, number: int, partition: PartitionId, loaded: Loaded) -> None: ...
    def load_refused(
        self, number: int, partition: PartitionId, error: CrowdpipeError, corrupt: tuple[str, ...]
    ) -> None: ...
    def partition_gone(
        self, number: int, partition: PartitionId, evict_s: float, rss_nbytes: int
    ) -> None: ...
    def task_executed(self, number: int, task: TaskId, executed: Executed) -> None: ...
    def execution_failed(
        self, number: int, task: TaskId, error: CrowdpipeError, fatal: bool
    ) -> None: ...
    def told(self) -> None: ...
    def ended(self, error: CrowdpipeError) -> None: ...
    def blob_rotten(self, digest: str) -> None: ...
