"""What the orchestrator's machine tells its shell to do: imperatives, carried out in order.

`StoreRun`, `StoreInput` and `StoreOutcome` are answered by `RunStored`, `InputStored` and
`OutcomeStored`, or by `JournalFailed`; `StoreParty` by `PartyStored`, or not at all. The shell may
sync several at once, never out of order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.machine.records.events import Outcome
from orchestrator.planner.question import Question
from orchestrator.planner.times import SegmentTime
from orchestrator.run_record import RunRecord
from wire.ids import ActivationId
from wire.messages.assignment import Assignment
from wire.messages.commands import CommandBatch
from wire.messages.model import ModelSummary
from wire.messages.progress import RunProgress
from wire.messages.requests import Response, RunOptions
from wire.messages.state import OrchestratorState


@dataclass(frozen=True, slots=True)
class RaiseGeneration:
    """Put a generation of at least `above + 1` on disk; answered by `GenerationRaised`."""

    above: int


@dataclass(frozen=True, slots=True)
class HoldInput:
    """Keep the pending frame of cut 0 by itself: it is stored with its run, or dropped."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class DropHeld:
    """The held frame is not needed any more."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class StoreRun(RunRecord):
    """Sync the run to disk, in one piece with the held frames of `inputs`."""

    inputs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreInput:
    """Sync the pending frame of cut 0 to disk."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class StoreOutcome:
    """Sync the outcome; for a result, the pending frame `activation` with it."""

    run: str
    outcome: Outcome
    activation: ActivationId | None = None


@dataclass(frozen=True, slots=True)
class StoreCount:
    """The client finished: the run has `count` items."""

    run: str
    count: int


@dataclass(frozen=True, slots=True)
class StoreParty:
    """Another session of the run's user has it from now on."""

    run: str
    party: str


@dataclass(frozen=True, slots=True)
class StoreEnding:
    """The run ended as a whole: `kind` names a typed error."""

    run: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class StoreTimes:
    """What segments took on devices, in the place of what was stored of the same before. It only
    makes plans better: nobody waits for it, and it may be lost."""

    times: tuple[SegmentTime, ...]


@dataclass(frozen=True, slots=True)
class ForgetTimes:
    """Of a model that was removed, or of a device that was forgotten."""

    model: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class StoreDeath:
    """This boot of a device ended while it ran the item, which is proven. Nobody waits for it."""

    run: str
    item: int
    device: str
    boot: str


@dataclass(frozen=True, slots=True)
class ForgetDeath:
    """It ended over something else."""

    run: str
    item: int
    device: str
    boot: str


@dataclass(frozen=True, slots=True)
class StoreAbsence:
    """For so many seconds in all a device was not heard of. Nobody waits for it."""

    device: str
    absent_s: float


@dataclass(frozen=True, slots=True)
class ForgetAbsence:
    """The device is back, or forgotten."""

    device: str


@dataclass(frozen=True, slots=True)
class StoreAcknowledged:
    """The client has these outcomes: their bytes may go."""

    run: str
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForgetInputs:
    """Results are in the journal: remove these inputs from disk."""

    run: str
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ForgetRun:
    """Everything of the run may go from disk."""

    run: str


@dataclass(frozen=True, slots=True)
class SearchPlan:
    """Answer the question beside everything else; answered by `PlanSearched` with this number."""

    number: int
    question: Question = field(repr=False)  # has all devices in it


@dataclass(frozen=True, slots=True)
class DiscardPending:
    """Drop a pending frame that will not be stored."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class SendInput:
    """Publish a stored input (cut 0) to a device, with this attempt and the run's settings."""

    activation: ActivationId
    to: str
    attempt: int
    options: RunOptions


@dataclass(frozen=True, slots=True)
class SendResult:
    """Publish a stored result to the client. Its cut is 0 where we do not know the model (yet):
    then the stored frame says which it is."""

    activation: ActivationId
    to: str


@dataclass(frozen=True, slots=True)
class Respond:
    party: str
    response: Response


@dataclass(frozen=True, slots=True)
class PublishAssignment:
    device: str
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class PublishCommands:
    """Not retained, with an expiry."""

    device: str
    batch: CommandBatch


@dataclass(frozen=True, slots=True)
class PublishModel:
    summary: ModelSummary


@dataclass(frozen=True, slots=True)
class ClearModel:
    name: str


@dataclass(frozen=True, slots=True)
class PublishRun:
    progress: RunProgress


@dataclass(frozen=True, slots=True)
class ClearRun:
    run: str


@dataclass(frozen=True, slots=True)
class ClearDevice:
    """Clear everything retained of a device that is to be forgotten."""

    device: str


@dataclass(frozen=True, slots=True)
class PublishState:
    state: OrchestratorState


Instruction = (
    RaiseGeneration
    | HoldInput
    | DropHeld
    | StoreRun
    | StoreInput
    | StoreOutcome
    | StoreCount
    | StoreParty
    | StoreEnding
    | StoreTimes
    | ForgetTimes
    | StoreDeath
    | ForgetDeath
    | StoreAbsence
    | ForgetAbsence
    | StoreAcknowledged
    | ForgetInputs
    | ForgetRun
    | SearchPlan
    | DiscardPending
    | SendInput
    | SendResult
    | Respond
    | PublishAssignment
    | PublishCommands
    | PublishModel
    | ClearModel
    | PublishRun
    | ClearRun
    | ClearDevice
    | PublishState
)
