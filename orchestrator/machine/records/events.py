"""What happened, as the orchestrator's shell tells its machine: past tense, one class each.

Bytes never enter the machine: an input or a result is its head; the bytes lie with the shell,
`pending` until the machine says to store or to discard them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.planner.offers import SegmentRange
from orchestrator.planner.times import SegmentTime
from orchestrator.run_record import Outcome as Outcome
from orchestrator.run_record import StoredRun as StoredRun
from wire.frame_head import FrameHead as FrameHead
from wire.frame_head import TensorHead as TensorHead
from wire.ids import ActivationId, PartitionId
from wire.manifest import Manifest
from wire.messages.events import EventBatch
from wire.messages.requests import Request
from wire.messages.residency import Residency
from wire.messages.state import DeviceState
from wire.messages.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class Started:
    """First event: the journal replayed. `generation` is already on disk and above all known."""

    boot: str
    generation: int
    runs: tuple[StoredRun, ...]
    store_base: str
    times: tuple[SegmentTime, ...] = ()
    absences: tuple[tuple[str, float], ...] = ()  # by device, in seconds


@dataclass(frozen=True, slots=True)
class GenerationRaised:
    """A higher one was seen; ours was raised above it, and is on disk."""

    generation: int


@dataclass(frozen=True, slots=True)
class Connected:
    connection: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    reason: str


@dataclass(frozen=True, slots=True)
class ModelAdded:
    """The store has this manifest now (also told for each at the start)."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class ModelRemoved:
    """`replaced`: another, or another cut of it, comes under the same name at once."""

    name: str
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class DeviceStateSeen:
    device: str
    state: DeviceState
    retained: bool


@dataclass(frozen=True, slots=True)
class TelemetrySeen:
    device: str
    telemetry: Telemetry
    retained: bool


@dataclass(frozen=True, slots=True)
class ResidencySeen:
    device: str
    residency: Residency
    retained: bool


@dataclass(frozen=True, slots=True)
class AssignmentSeen:
    """An assignment of that generation was retained: our own or an earlier orchestrator's. It
    lists these partitions."""

    device: str
    generation: int
    partitions: tuple[PartitionId, ...] = ()


@dataclass(frozen=True, slots=True)
class EventsArrived:
    device: str
    batch: EventBatch


@dataclass(frozen=True, slots=True)
class RequestArrived:
    party: str
    request: Request


@dataclass(frozen=True, slots=True)
class InputArrived:
    """A frame of cut 0 from a client; its bytes are pending with the shell."""

    party: str
    head: FrameHead


@dataclass(frozen=True, slots=True)
class ResultArrived:
    """A frame from a device; its bytes are pending with the shell."""

    device: str
    head: FrameHead


@dataclass(frozen=True, slots=True)
class FrameLost:
    """A frame to us was refused or its parts timed out before it was whole."""

    sender: str
    activation: ActivationId
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunStored:
    """The run is synced to disk, with these inputs."""

    run: str
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartyStored:
    """That the run is this party's is synced to disk."""

    run: str
    party: str


@dataclass(frozen=True, slots=True)
class InputStored:
    """The input is synced to disk."""

    run: str
    item: int


@dataclass(frozen=True, slots=True)
class OutcomeStored:
    """The outcome is synced to disk; it is the first, for good."""

    run: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class JournalFailed:
    """The disk refused: `what` names the record. The item fails, or the run is rejected."""

    what: Literal["run", "input", "outcome"]
    run: str
    item: int | None
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlanSearched:
    """What `SearchPlan` of this number found: ranges, or why there are none."""

    number: int
    ranges: tuple[SegmentRange, ...] | None
    kind: str = ""
    reason: str = ""
    shortlist: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgetAsked:
    """A person says that a device is to be forgotten."""

    device: str


@dataclass(frozen=True, slots=True)
class Ticked:
    """The time that `wake_at` asked for has come."""


Event = (
    Started
    | GenerationRaised
    | Connected
    | Disconnected
    | ModelAdded
    | ModelRemoved
    | DeviceStateSeen
    | TelemetrySeen
    | ResidencySeen
    | AssignmentSeen
    | EventsArrived
    | RequestArrived
    | InputArrived
    | ResultArrived
    | FrameLost
    | RunStored
    | PartyStored
    | InputStored
    | OutcomeStored
    | JournalFailed
    | PlanSearched
    | ForgetAsked
    | Ticked
)
