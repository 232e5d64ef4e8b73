"""A run: a batch of items submitted together by one client, and how far it has come.

Records only. Items leave `items` when their outcome is on disk; `outcomes` keeps those that the
client has not acknowledged, `acknowledged` only their numbers.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from orchestrator.machine.records.events import Outcome
from orchestrator.machine.records.item import Item
from orchestrator.machine.records.plan import PlanKey, Want
from wire.lifecycle import Lifecycle
from wire.messages.requests import RunOptions, RunStatus
from wire.spans import Spans

STATUS: dict[str, RunStatus] = {
    "gathering": "accepted",
    "storing": "accepted",
    "accepted": "accepted",
    "running": "running",
    "done": "done",
    "failed": "failed",
    "cancelled": "cancelled",
}
Obstacle = tuple[str, str]  # a typed error's kind, and a sentence
SILENT = "nothing is heard of its client: it waits"


@dataclass(slots=True)
class Run:
    """`waiting`: indices that are stored and not admitted, ascending. `wave`: a barrier run's
    items that are under way together; `opened_cuts`: cuts that all of it may pass.
    `waits_until`: no waiting item is out of time before. `granted`: the credit the client was
    last told. `end_cut`: where the model's results are. `spooled_nbytes`: bytes of its inputs on
    disk. `active_at`: last word from the client, or last outcome; `heard_at`: last word alone,
    `silent`: its client is not there, and it waits. `moved_at`: when an item of it was last let
    in, or ended. `obstacle`: what is in its way, as its client was told. `fault`: kind and reason
    why the run as a whole ended early. `awaited`: inputs that are to be stored with it and are
    not here yet; until `gather_until` at most."""

    run: str
    party: str
    model_name: str
    model: str
    options: RunOptions
    count: int | None
    end_cut: int
    life: Lifecycle
    begun_at: float
    active_at: float
    heard_at: float
    silent: bool = False
    moved_at: float = float("-inf")
    obstacle: Obstacle | None = None
    look_at: float = float("-inf")
    items: dict[int, Item] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    acknowledged: Spans = field(default_factory=Spans)
    ended: Spans = field(default_factory=Spans)
    stored: Spans = field(default_factory=Spans)
    wave: dict[int, None] = field(default_factory=dict)
    opened_cuts: set[int] = field(default_factory=set)
    waits_until: float = float("-inf")
    admitted: int = 0
    done: int = 0
    failed: int = 0
    granted: int = 0
    spooled_nbytes: int = 0
    unsaid: int = 0
    say_at: float = float("inf")
    progress_at: float = float("-inf")
    progress_dirty: bool = True
    ended_at: float | None = None
    clear_at: float = float("inf")
    fault: tuple[str, str] | None = None
    awaited: set[int] = field(default_factory=set)
    gather_until: float = float("inf")

    @property
    def reason(self) -> str | None:
        if self.silent and self.open:
            return SILENT
        why = self.fault or (self.obstacle if self.open else None)
        return why[1] if why is not None else None

    @property
    def plan_key(self) -> PlanKey:
        return (self.model, self.options.exact)

    @property
    def want(self) -> Want:
        return Want(self.options.partitions, self.options.policy)

    @property
    def state(self) -> str:
        return self.life.state

    @property
    def kept(self) -> bool:
        """On disk: its client may be told of it, and others see it."""
        return self.state not in ("gathering", "storing")

    @property
    def open(self) -> bool:
        """Takes inputs and works on them."""
        return self.state in ("accepted", "running")

    @property
    def attended(self) -> bool:
        """Open, and its client is there."""
        return self.open and not self.silent

    @property
    def status(self) -> RunStatus:
        return STATUS[self.state]

    @property
    def complete(self) -> bool:
        """Every item has its outcome on disk, and no more can come."""
        return self.count is not None and not self.items and len(self.ended) >= self.count

    def enqueue(self, item: Item) -> None:
        insort(self.waiting, item.index)

    def dequeue(self, index: int) -> None:
        if index in self.waiting:
            self.waiting.remove(index)
