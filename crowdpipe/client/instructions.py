"""What the client's machine tells its shell to do: imperatives, carried out in order."""

from __future__ import annotations

from dataclasses import dataclass

from wire.ids import ActivationId
from wire.messages.requests import Planned, Request, RunsListed


@dataclass(frozen=True, slots=True)
class Say:
    """Publish a request to the orchestrator."""

    request: Request


@dataclass(frozen=True, slots=True)
class SendInput:
    """Publish an input that lies with the shell."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class ForgetInput:
    """The orchestrator has it on disk, or nobody needs it any more."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class Grant:
    """The person may offer inputs up to `total` of them, counted from the run's start."""

    run: str
    total: int


@dataclass(frozen=True, slots=True)
class GiveResult:
    """Hand the frame that lies under `activation` to the person: the item's first outcome."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class DropResult:
    """A frame that is no item's first outcome."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class GiveError:
    """The item's first outcome is an error."""

    run: str
    item: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class TellWait:
    """What keeps the run from going on, for the person to see; empty once nothing does."""

    run: str
    reason: str


@dataclass(frozen=True, slots=True)
class TellNews:
    """Something happened to the run, in a sentence for the person to see."""

    run: str
    text: str


@dataclass(frozen=True, slots=True)
class TellExpected:
    """The run that was to be collected is ours: so many outcomes come, and `had` another session
    has."""

    run: str
    count: int
    had: int = 0


@dataclass(frozen=True, slots=True)
class EndRun:
    """Nothing more will come: every item has its outcome, or (`kind`) the run as a whole failed."""

    run: str
    kind: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GiveAnswer:
    """The answer to a question (for a plan, or for runs), or an error."""

    request: str
    answer: Planned | RunsListed | None
    kind: str = ""
    reason: str = ""


Instruction = (
    Say
    | SendInput
    | ForgetInput
    | Grant
    | GiveResult
    | DropResult
    | GiveError
    | TellWait
    | TellNews
    | TellExpected
    | EndRun
    | GiveAnswer
)
