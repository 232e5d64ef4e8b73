"""One run as its client sees it: what was offered, sent, stored, and has an outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from crowdpipe.client.events import RunAsked
from crowdpipe.client.items import Items
from wire.ids import ActivationId
from wire.messages.requests import ATTACHED_COUNT, ATTACHED_NBYTES

FIRST_S = 0.005  # so long `submit` waits for first inputs to take along

RunState = Literal["submitting", "accepted", "ended"]
_NEXT: dict[RunState, tuple[RunState, ...]] = {
    "submitting": ("accepted", "ended"),
    "accepted": ("ended",),
    "ended": (),
}


@dataclass(slots=True)
class ClientRun:
    """`waiting` inputs were offered and not sent, `flying` ones sent and not known as stored.
    `submitted`: it was said once; `attached`: so many of the offered inputs may go with it, of
    `attached_nbytes` together, and `full` says that no more may.
    `unsure`: what was said may be lost; `repeat_at`: when to ask again what there is, if something
    is awaited; `acks`: outcomes to acknowledge; `waits`: kind and reason of what keeps it from
    going on, as the orchestrator says."""

    asked: RunAsked
    begun_at: float
    progress_at: float
    state: RunState = "submitting"
    history: list[tuple[float, RunState]] = field(default_factory=list)
    count: int | None = None
    credit: int = 0
    granted: int = 0
    offered: int = 0
    taken: int = 0
    stored: int = 0
    submitted: bool = False
    attached: int = 0
    attached_nbytes: int = 0
    full: bool = False
    waiting: dict[int, None] = field(default_factory=dict)
    flying: dict[int, None] = field(default_factory=dict)
    settled: Items = field(default_factory=Items)
    acks: list[int] = field(default_factory=list)
    ack_at: float = float("inf")
    repeat_at: float = 0.0
    repeat_s: float = 0.0
    unsure: bool = False
    resuming: bool = False
    finished: bool = False
    waits: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return self.asked.run

    def move(self, state: RunState, now: float) -> None:
        if state not in _NEXT[self.state]:
            raise RuntimeError(f"run {self.name}: {self.state} to {state}; so far {self.history}")
        self.history.append((now, state))
        self.state = state

    def input(self, item: int) -> ActivationId:
        return ActivationId(self.name, item, 0)

    @property
    def unstored(self) -> int:
        return len(self.waiting) + len(self.flying)

    @property
    def starved(self) -> bool:
        """More inputs may come, and the orchestrator takes none: its room for them is full."""
        more = self.count is None or self.offered < self.count
        return self.state == "accepted" and more and self.credit == 0

    @property
    def pending(self) -> bool:
        """Somebody else has to do something: the orchestrator, or the devices."""
        waits = self.state == "submitting" or self.offered > len(self.settled)
        return waits or self.starved

    @property
    def complete(self) -> bool:
        return self.count is not None and len(self.settled) >= self.count

    def offer(self, item: int, nbytes: int) -> None:
        """The next input is here."""
        self.offered = max(self.offered, item + 1)
        self.waiting[item] = None
        self.full = self.full or self.attached_nbytes + nbytes > ATTACHED_NBYTES
        if not self.full:
            self.attached, self.attached_nbytes = self.attached + 1, self.attached_nbytes + nbytes
            self.full = self.attached == ATTACHED_COUNT

    def submit_at(self) -> float:
        """When to submit, for the first time or again."""
        whole = self.count is not None and self.offered >= self.count
        at_once = self.submitted or self.full or whole
        return self.repeat_at if at_once else self.begun_at + FIRST_S

    def take_attached(self) -> list[int]:
        """The inputs that go with the first `submit`; with its repetitions none does."""
        first = list(self.waiting)[: 0 if self.submitted else self.attached]
        for item in first:
            del self.waiting[item]
            self.flying[item] = None
        self.submitted = True
        return first

    def unstored_among(self, ranges: tuple[tuple[int, int], ...]) -> list[int]:
        """What is offered and not known as stored, of the items that `ranges` list."""
        offered = [*self.flying, *self.waiting]
        return [each for each in offered if any(a <= each <= b for a, b in ranges)]

    def land(self) -> None:
        """What flies and is not known as stored is to be sent again, first of all."""
        self.waiting = {**dict.fromkeys(sorted(self.flying)), **self.waiting}
        self.flying = {}

    def may_offer(self) -> int:
        """How many inputs in total may be offered by now. Before the run is accepted, those that
        could go along with it."""
        if self.state != "accepted":
            return min(ATTACHED_COUNT, self.asked.window)
        room = self.asked.window - (self.offered - self.taken)
        return self.offered + max(0, min(self.credit - self.unstored, room))

    def deadline(self) -> float:
        """When to give up, as things are."""
        if not self.pending:
            return float("inf")
        since = self.begun_at if self.asked.total else self.progress_at
        return since + self.asked.limit_s
