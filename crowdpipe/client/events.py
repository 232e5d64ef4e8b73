"""What happened, as the client's shell tells its machine: past tense, one class each.

Bytes never enter the machine: inputs and results are named, and lie with the shell.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.ids import ActivationId
from wire.messages.requests import Response, RunOptions


@dataclass(frozen=True, slots=True)
class Connected:
    """Every subscription is granted, and what was retained before has been told."""


@dataclass(frozen=True, slots=True)
class Disconnected:
    reason: str


@dataclass(frozen=True, slots=True)
class OrchestratorSeen:
    """Its state, retained or fresh. `connection` tells one life from the next."""

    online: bool
    connection: str


@dataclass(frozen=True, slots=True)
class RunAsked:
    """A person wants a run. At most `window` of its items may be with the system or wait for
    the person at once. `limit_s`: how long anything may take without progress, or, if `total`,
    the whole run. `collect`: it is there already, another client's of the same user, and of the
    model whose digest `model` is. Of a detached run nothing is read: it ends here once all of its
    inputs are stored."""

    run: str
    model: str
    options: RunOptions
    count: int | None
    window: int
    limit_s: float
    total: bool = False
    collect: bool = False


@dataclass(frozen=True, slots=True)
class InputOffered:
    """The next input, in order from 0, lies with the shell: a frame of `nbytes`."""

    run: str
    item: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class InputsEnded:
    run: str
    count: int


@dataclass(frozen=True, slots=True)
class OutcomesTaken:
    """The person has so many more: their places in the window are free."""

    run: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class RunAbandoned:
    """The person wants no more of it."""

    run: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A run of this user's is to end, whichever client began it."""

    run: str


@dataclass(frozen=True, slots=True)
class RunLeft:
    """Of a run that was collected, the person has these outcomes for good; the others are left to
    whoever collects it next."""

    run: str
    kept: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunsAsked:
    """A person wants the list of their runs, or (`run`) this one."""

    request: str
    limit_s: float
    run: str | None = None


@dataclass(frozen=True, slots=True)
class PlanAsked:
    request: str
    model: str
    options: RunOptions
    limit_s: float
    items: int | None = None


@dataclass(frozen=True, slots=True)
class ResponseArrived:
    response: Response


@dataclass(frozen=True, slots=True)
class ResultArrived:
    """A frame from the orchestrator lies with the shell, under its activation."""

    activation: ActivationId


@dataclass(frozen=True, slots=True)
class Ticked:
    """The time that `wake_at` asked for has come."""


Event = (
    Connected
    | Disconnected
    | OrchestratorSeen
    | RunAsked
    | InputOffered
    | InputsEnded
    | OutcomesTaken
    | RunAbandoned
    | CancelAsked
    | RunLeft
    | RunsAsked
    | PlanAsked
    | ResponseArrived
    | ResultArrived
    | Ticked
)
