"""`clients/<user>/<session>/requests` and `…/responses`: a person's program and the orchestrator.

The client mints the run's id and repeats `submit` until it is accepted; inputs follow as frames
of cut 0 on `orchestrator/from/<client>`, at most `credit` beyond those reported stored. A few may
come right behind the first `submit`, which says how many. Results
come back as frames of the last cut on `<client>/from/orchestrator`, errors as `item_failed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from wire.ids import check_name
from wire.transport import Transport

ATTACHED_COUNT = 4  # so many inputs may be attached to `submit`, …
ATTACHED_NBYTES = 1 << 20  # … if their frames together have no more bytes


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`exact`: optimisation off, bit for bit. `barrier`: a partition starts when all outputs of
    the one before have arrived (needs a count). `partitions`: as many as this, or the planner's
    choice. `lifetime_s`: how long results are kept for a client that does not fetch them."""

    exact: bool = False
    barrier: bool = False
    transport: Transport = "auto"
    partitions: int | None = None
    policy: str = "affinity"
    lifetime_s: float = 3600.0


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


@dataclass(frozen=True, slots=True)
class Finish:
    """No more inputs: the run has `count` items."""

    type: ClassVar[str] = "finish"
    run: str
    count: int


@dataclass(frozen=True, slots=True)
class CancelRun:
    type: ClassVar[str] = "cancel_run"
    run: str


@dataclass(frozen=True, slots=True)
class AcknowledgeResults:
    """These outcomes are in the client's hands; they need not be kept."""

    type: ClassVar[str] = "acknowledge_results"
    run: str
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Resume:
    """After a reconnect: which inputs are stored, and send again every outcome that was not
    acknowledged."""

    type: ClassVar[str] = "resume"
    run: str


@dataclass(frozen=True, slots=True)
class Renew:
    """The client is there and still wants these runs. Said often enough that silence means that
    it is gone: then its runs wait, and end after a while."""

    type: ClassVar[str] = "renew"
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Who would serve what, and why; changes nothing. `items`: how many would be run."""

    type: ClassVar[str] = "request_plan"
    request: str
    model: str
    options: RunOptions = RunOptions()
    items: int | None = None


Request = Submit | Finish | CancelRun | AcknowledgeResults | Resume | Renew | RequestPlan


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
    heard of, and its `submit` may still be under way: ask before believing it."""

    type: ClassVar[str] = "rejected"
    run: str
    kind: str
    reason: str
    doubtful: bool = False


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
    """`batch_s`: how long `items` items are estimated to take."""

    type: ClassVar[str] = "planned"
    request: str
    model: str
    partitions: tuple[PlannedPartition, ...]
    left_out: dict[str, str]
    items: int = 0
    batch_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RequestFailed:
    type: ClassVar[str] = "request_failed"
    request: str
    kind: str
    reason: str


Response = Accepted | InputsStored | Rejected | ItemFailed | RunWaits | Planned | RequestFailed
RunStatus = Literal["accepted", "running", "done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class RunProgress:
    """`runs/<r>`, retained with an expiry: what a watcher sees of a run."""

    run: str
    model: str
    status: RunStatus
    exact: bool
    barrier: bool
    transport: str
    count: int | None
    stored: int
    admitted: int
    done: int
    failed: int
    elapsed_s: float
    reason: str | None = None
