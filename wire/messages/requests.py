"""`clients/<user>/<session>/requests` and `…/responses`: a person's program and the orchestrator.

The client mints the run's id and repeats `submit` until it is accepted; inputs follow as frames
of cut 0 on `orchestrator/from/<client>`, at most `credit` beyond those reported stored. A few may
come right behind the first `submit`, which says how many. Results
come back as frames of the last cut on `<client>/from/orchestrator`, errors as `item_failed`.

A run outlives its client: another session of the same user may `list_runs`, `cancel_run`, and
`collect_run`, which makes the run its own. Of another user's it is told what it is told of none.

What a client announces is bounded where it is read: names and lists by their lengths here, which
makes a longer one no message at all; numbers (`count`, `attached`, `items`, `partitions`,
`lifetime_s`) by whoever decides about them, who can say what would do. Nothing is allocated or
looped over by an announced number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wire.frame_head import FrameSettings
from wire.ids import check_name
from wire.messages.progress import ListedRun
from wire.transport import Transport

ATTACHED_COUNT = 4  # so many inputs may be attached to `submit`, …
ATTACHED_NBYTES = 1 << 20  # … if their frames together have no more bytes
REQUEST_NBYTES = 64 << 10  # the longest request: a full list of acknowledgements has half of it
ACKNOWLEDGED_COUNT = 4096  # outcomes that one request may acknowledge
RENEWED_COUNT = 1000  # runs that one request may renew
NAME_LENGTH = 64  # of ids and options that are asked for by name
DIGEST_LENGTH = 128
LISTED_COUNT = 100  # runs that one answer lists
BATCH_AUTO = 0
ITEMS_LIMIT = 100_000_000  # no run has an item beyond, whatever an orchestrator allows


def _check_length(what: str, length: int, most: int) -> None:
    if length > most:
        raise ValueError(f"{what} of length {length}; at most {most} may be asked for")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`exact`: optimisation off, bit for bit. `barrier`: a partition starts when all outputs of
    the one before have arrived (needs a count). `partitions`: as many as this, or the planner's
    choice. `lifetime_s`: how long results are kept for a client that does not fetch them.
    `detached`: once all inputs are stored, the run goes on without a client. `batch_size`: so many
    items that wait at a device together may be computed in one call, which may change last bits;
    `BATCH_AUTO`: as many as suit the model."""

    exact: bool = False
    barrier: bool = False
    transport: Transport = "auto"
    partitions: int | None = None
    policy: str = "affinity"
    lifetime_s: float = 3600.0
    detached: bool = False
    batch_size: int = 1

    def __post_init__(self) -> None:
        _check_length("a policy", len(self.policy), NAME_LENGTH)

    @property
    def frame_settings(self) -> FrameSettings:
        """What travels with each item. A client that asks for `BATCH_AUTO` does not know yet what
        that is: the orchestrator says it."""
        return FrameSettings(self.exact, self.barrier, self.transport, max(1, self.batch_size))


@dataclass(frozen=True, slots=True)
class Submit:
    """`attached`: so many first inputs come right behind. Run and inputs are then stored together,
    and answered once. What `accepted` does not list of them was not taken, and is sent again."""

    type: ClassVar[str] = "submit"
    run: str
    model: str
    options: RunOptions = RunOptions()
    count: int | None = None
    attached: int = 0

    def __post_init__(self) -> None:
        check_name(self.run, "run id")
        _check_length("a model's name", len(self.model), NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class Finish:
    """No more inputs: the run has `count` items."""

    type: ClassVar[str] = "finish"
    run: str
    count: int

    def __post_init__(self) -> None:
        _check_length("a run id", len(self.run), NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class CancelRun:
    type: ClassVar[str] = "cancel_run"
    run: str

    def __post_init__(self) -> None:
        _check_length("a run id", len(self.run), NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class AcknowledgeResults:
    """These outcomes are in the client's hands; they need not be kept."""

    type: ClassVar[str] = "acknowledge_results"
    run: str
    items: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_length("a run id", len(self.run), NAME_LENGTH)
        _check_length("a list of items", len(self.items), ACKNOWLEDGED_COUNT)


@dataclass(frozen=True, slots=True)
class Resume:
    """After a reconnect: which inputs are stored, and (`reads`) send again every outcome that was
    not acknowledged."""

    type: ClassVar[str] = "resume"
    run: str
    reads: bool = True

    def __post_init__(self) -> None:
        _check_length("a run id", len(self.run), NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class CollectRun:
    """This session takes the run over from another of its user's that is gone: its outcomes are
    sent here from now on, and no more inputs are taken. `model`: the digest it has to be of."""

    type: ClassVar[str] = "collect_run"
    run: str
    model: str

    def __post_init__(self) -> None:
        _check_length("a run id", len(self.run), NAME_LENGTH)
        _check_length("a model's digest", len(self.model), DIGEST_LENGTH)


@dataclass(frozen=True, slots=True)
class LeaveRun:
    """This session reads the run no more, and does not cancel it: another may collect it."""

    type: ClassVar[str] = "leave_run"
    run: str

    def __post_init__(self) -> None:
        _check_length("a run id", len(self.run), NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class ListRuns:
    """The runs of this user, the newest first, or (`run`) this one of them."""

    type: ClassVar[str] = "list_runs"
    request: str
    run: str | None = None

    def __post_init__(self) -> None:
        _check_length("a request's id", len(self.request), NAME_LENGTH)
        _check_length("a run id", len(self.run or ""), NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class Renew:
    """The client is there and still wants these runs. Said often enough that silence means that
    it is gone: then its runs wait, and end after a while."""

    type: ClassVar[str] = "renew"
    runs: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_length("a list of runs", len(self.runs), RENEWED_COUNT)
        _check_length("a run id", max(map(len, self.runs), default=0), NAME_LENGTH)


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Who would serve what, and why; changes nothing. `items`: how many would be run."""

    type: ClassVar[str] = "request_plan"
    request: str
    model: str
    options: RunOptions = RunOptions()
    items: int | None = None

    def __post_init__(self) -> None:
        _check_length("a request's id", len(self.request), NAME_LENGTH)
        _check_length("a model's name", len(self.model), NAME_LENGTH)


Request = (
    Submit
    | Finish
    | CancelRun
    | AcknowledgeResults
    | Resume
    | CollectRun
    | LeaveRun
    | ListRuns
    | Renew
    | RequestPlan
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The run is on disk, with the inputs that are `stored`, as ranges [first, last]. `credit`:
    inputs that may be under way, not yet reported stored."""

    type: ClassVar[str] = "accepted"
    run: str
    model: str
    credit: int
    stored: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class InputsStored:
    """All inputs stored so far, as ranges [first, last]; `credit` as in `accepted`."""

    type: ClassVar[str] = "inputs_stored"
    run: str
    ranges: tuple[tuple[int, int], ...]
    credit: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The whole run is refused; `kind` names a typed error. `doubtful`: only an input of it was
    heard of, and its `submit` may still be under way: ask before believing it. `again_s`, with
    `busy`: only this request is refused, for now, and may be made again after so long."""

    type: ClassVar[str] = "rejected"
    run: str
    kind: str
    reason: str
    doubtful: bool = False
    again_s: float | None = None


@dataclass(frozen=True, slots=True)
class ItemFailed:
    type: ClassVar[str] = "item_failed"
    run: str
    item: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunWaits:
    """What keeps the run from going on, as the error that it would end with; without `kind`,
    nothing does any more. Not an end: the run goes on once it can."""

    type: ClassVar[str] = "run_waits"
    run: str
    kind: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunNews:
    """Something happened to the run, in a sentence for people. `stamp` rises from one to the
    next, also from one life of the orchestrator to its next: what does not is a repetition."""

    type: ClassVar[str] = "run_news"
    run: str
    stamp: tuple[int, int]
    text: str


@dataclass(frozen=True, slots=True)
class Collected:
    """The run is this session's now. `items`: ranges [first, last] of those whose outcome comes;
    of the others another session has it (`had`: so many), or they never were. `news`: the stamp of
    what happened before, which need not be told any more."""

    type: ClassVar[str] = "collected"
    run: str
    items: tuple[tuple[int, int], ...]
    news: tuple[int, int] = (0, 0)
    had: int = 0

    def __post_init__(self) -> None:
        before = -2
        for first, last in self.items:
            if not before + 1 < first <= last < ITEMS_LIMIT:
                raise ValueError(f"items {first} to {last} after {before}")
            before = last


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One row of a plan. `reason` is a sentence: why this device. `measured`: of so many of its
    segments the cost was measured on a device; of the others it is estimated."""

    first: int
    last: int
    device: str
    tier: int
    streamed: bool
    need_nbytes: int
    budget_nbytes: int
    missing_nbytes: int
    boundary_nbytes: int
    compute_s: float
    reason: str
    measured: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """`batch_s`: how long `items` items are estimated to take, once all is loaded. `lone_device`:
    who of the plan's devices could serve the whole model alone, the fastest of them if there are
    several, and `lone_s` how long it would take; empty if none could, or if one does."""

    type: ClassVar[str] = "planned"
    request: str
    model: str
    partitions: tuple[PlannedPartition, ...]
    left_out: dict[str, str]
    items: int = 0
    batch_s: float = 0.0
    lone_device: str = ""
    lone_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """`again_s` as in `rejected`."""

    type: ClassVar[str] = "request_failed"
    request: str
    kind: str
    reason: str
    again_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunsListed:
    """`left_out`: so many older ones are not listed. `gone`: why the one that was asked for is not
    kept any more, if that is remembered."""

    type: ClassVar[str] = "runs_listed"
    request: str
    runs: tuple[ListedRun, ...]
    left_out: int = 0
    gone: str | None = None


Response = (
    Accepted
    | InputsStored
    | Rejected
    | ItemFailed
    | RunWaits
    | RunNews
    | Collected
    | RunsListed
    | Planned
    | RequestFailed
)
