"""A run: a batch of items submitted together by one client, and how far it has come.

Records only. Items leave `items` when their outcome is on disk; `outcomes` keeps those that the
client has not acknowledged, `acknowledged` only their numbers. What changes here is put on the
agenda by the method that changes it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from orchestrator.machine.records.agenda import Agenda, Look
from orchestrator.machine.records.events import Outcome
from orchestrator.machine.records.happenings import Happenings
from orchestrator.machine.records.item import Involved, Item
from orchestrator.machine.records.plan import PlanKey, Want
from orchestrator.machine.records.transitions import lifecycle_of
from wire.lifecycle import Lifecycle
from wire.messages.progress import RunStatus
from wire.messages.requests import RunOptions
from wire.spans import Spans
from wire.topics import user_of

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


class Keeper(Protocol):
    """Whoever keeps indices over runs: told after a change that they depend on."""

    def run_changed(self, run: Run) -> None: ...

    def may_enter(self, run: Run) -> None: ...

    def took_off(self, run: Run) -> None: ...

    def landed(self, run: Run) -> None: ...

    def handed_over(self, run: Run, party: str) -> None: ...


@dataclass(slots=True)
class Run:
    """`begun_at`, and all times: seconds of the machine's clock."""

    run: str
    party: str
    model_name: str
    model: str
    options: RunOptions
    count: int | None  # None until the client has finished; never below an item's index
    end_cut: int  # where the model's results are: the number of its segments
    life: Lifecycle
    begun_at: float
    active_at: float  # last word from the client, or last outcome
    heard_at: float  # last word from the client alone; never after `active_at`
    agenda: Agenda
    involved: Involved
    order: int = 0  # rises from run to run: the oldest with work leads its plan
    keeper: Keeper | None = None
    silent: bool = False  # its client is not there; nothing of it is admitted or granted
    unread: bool = False  # nobody takes its outcomes now: they wait until it is collected
    disowned: bool = False  # its client takes no more of it: what it has need not be kept
    moved_at: float = float("-inf")  # when an item of it was last admitted, or ended
    obstacle: Obstacle | None = None  # what is in its way, as its client was told
    looked_at: float = float("-inf")  # when an obstacle was looked for last
    news_at: float = float("-inf")  # last news of one of its items
    items: dict[int, Item] = field(default_factory=dict)  # without those in `ended`
    waiting: list[int] = field(default_factory=list)  # ascending; exactly the stored items
    in_flight: dict[int, Item] = field(default_factory=dict)  # exactly the admitted ones, in order
    outcomes: dict[int, Outcome] = field(default_factory=dict)  # on disk, not acknowledged
    acknowledged: Spans = field(default_factory=Spans)  # within `ended`
    ended: Spans = field(default_factory=Spans)  # have their outcome on disk
    stored: Spans = field(default_factory=Spans)  # need no credit any more
    wave: dict[int, None] = field(default_factory=dict)  # a barrier run's items under way together
    opened_cuts: set[int] = field(default_factory=set)  # cuts that all of the wave may pass
    missing: dict[int, list[int]] = field(default_factory=dict)  # per cut, of the wave: not come
    waits_until: float = float("-inf")  # no waiting item is out of time before
    highest: int = -1  # no item that is here has a higher number
    admitted: int = 0
    done: int = 0
    failed: int = 0
    granted: int = 0  # the credit that the client was last told
    promised_nbytes: int = 0  # what that credit may bring; counted in the budget
    spooled_nbytes: int = 0  # bytes of its inputs on disk; counted in the budget
    unsaid: int = 0  # inputs stored since its client was told
    say_at: float = float("inf")
    progress_at: float = float("-inf")
    progress_dirty: bool = True
    ended_at: float | None = None
    fault: tuple[str, str] | None = None  # kind and reason why it ended before its items did
    happenings: Happenings = field(default_factory=Happenings)
    awaited: set[int] = field(default_factory=set)  # attached inputs that are not here yet
    gather_until: float = float("inf")
    checked: bool = True  # devices could serve it, as far as that is known; else it is not stored

    @property
    def reason(self) -> str | None:
        if self.silent and self.open:
            return SILENT
        why = self.fault or (self.obstacle if self.open else None)
        return why[1] if why is not None else None

    @property
    def user(self) -> str:
        return user_of(self.party)

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
    def over(self) -> bool:
        """It ended, and is kept for what its client has not fetched."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def open(self) -> bool:
        """Takes inputs and works on them."""
        return self.state in ("accepted", "running")

    @property
    def attended(self) -> bool:
        """Open, and its client is there."""
        return self.open and not self.silent

    @property
    def whole(self) -> bool:
        """Every input is here, or past being needed."""
        return self.count is not None and len(self.stored) >= self.count

    @property
    def goes_alone(self) -> bool:
        """It needs no client to go on."""
        return self.options.detached and self.whole

    @property
    def working(self) -> bool:
        """Has work that is not done, and somebody who waits for it."""
        return bool(self.items) and self.attended

    @property
    def status(self) -> RunStatus:
        return STATUS[self.state]

    @property
    def complete(self) -> bool:
        """Every item has its outcome on disk, and no more can come."""
        return self.count is not None and not self.items and len(self.ended) >= self.count

    # --- life ---------------------------------------------------------------------------------

    def move(self, to: str, now: float, why: str = "") -> None:
        self.life.move(to, now, why)
        self._changed()
        self.show()
        self._look("client", "model", "end", "expiry", "waiting")
        self.look_at_admission()

    def hear(self, now: float) -> None:
        """Its client said something of it."""
        self.active_at = self.heard_at = now
        if self.unread and not self.options.detached:  # its client reads it whenever it is there
            self.unread = False
            self.show()
            self._look("client")
        if self.silent:
            self.silent = False
            self._changed()
            self.show()
            self.waits_until = float("-inf")
            self.say_by(now, now)  # its credit was taken back meanwhile
            self._look("client", "waiting", "obstacle")
            self.look_at_admission()

    def fall_silent(self) -> None:
        self.silent = True
        self._changed()
        self.show()

    def leave(self, to: str | None = None) -> None:
        """Nobody takes its outcomes now; it belongs to this party."""
        self._belong(to or self.party)
        self.unread = True
        self.show()
        self._look("client")

    def disown(self) -> None:
        """Nobody wants what is left of it, once it is over."""
        self.disowned = True
        self._look("end")

    def _belong(self, party: str) -> None:
        if party != self.party and self.keeper is not None:
            self.keeper.handed_over(self, party)

    def hand_over(self, party: str, now: float) -> None:
        """This session of its user's has it from now on, and reads it."""
        self._belong(party)
        self.unread = False
        self.hear(now)
        self.show()
        self._look("client")

    # --- items --------------------------------------------------------------------------------

    def arrive(self, index: int, now: float) -> Item:
        """One more item, whose input is looked at next."""
        life = lifecycle_of("item", f"{self.run}/{index}", "arrived", now, self.life.cause)
        item = Item(self.run, index, life, self.agenda, self.involved, self.options.barrier)
        self.items[index] = item
        self.highest = max(self.highest, index)
        if len(self.items) == 1:
            self._changed()
        self.touch()
        return item

    def drop(self, index: int) -> Item | None:
        """Its outcome is on disk, or it was never taken."""
        item = self.items.pop(index, None)
        if item is not None:
            item.leave()
        if not self.items:
            self._changed()
            self._look("end", "expiry")
        return item

    def end(self, item: Item, outcome: Outcome, now: float) -> None:
        """The item's outcome is on disk."""
        item.life.move("ended", now)
        self.outcomes[item.index] = outcome
        self.ended.add(item.index)
        self.done += outcome.kind is None
        self.failed += outcome.kind is not None
        self.active_at = self.moved_at = now
        self.drop(item.index)
        self.show()

    def enqueue(self, item: Item) -> None:
        """Stored: it may be admitted."""
        insort(self.waiting, item.index)
        self.touch()
        self._look("waiting")
        self.look_at_admission()

    def dequeue(self, index: int) -> None:
        at = bisect_left(self.waiting, index)
        if at < len(self.waiting) and self.waiting[at] == index:
            del self.waiting[at]

    def admit(self, now: float) -> Item:
        """Its next item is admitted."""
        return self.let_in(self.items[self.waiting.pop(0)], now)

    def let_in(self, item: Item, now: float) -> Item:
        """It is admitted, and does not wait in the row."""
        if self.state == "accepted":
            self.move("running", now)
        item.life.move("admitted", now)
        item.progress_at = self.moved_at = now
        self.admitted += 1
        self.in_flight[item.index] = item
        if self.keeper is not None:
            self.keeper.took_off(self)
        if self.options.barrier:
            self.wave[item.index] = None
            self.missing.clear()
            self.look_at_barrier()
        self.show()
        return item

    def leave_flight(self, index: int) -> None:
        """It has an outcome, or goes home: another may be admitted."""
        if self.in_flight.pop(index, None) is not None:
            if self.keeper is not None:
                self.keeper.landed(self)
            self.look_at_admission()
        if self.wave.pop(index, 0) is None:
            self.look_at_barrier()

    def close_cuts(self) -> None:
        """Something of the wave was placed or received anew: each cut is looked at again."""
        if self.wave:
            self.opened_cuts.clear()
            self.look_at_barrier()

    def look_at_admission(self) -> None:
        """What held it back may be over."""
        if self.keeper is not None:
            self.keeper.may_enter(self)

    def look_at_barrier(self) -> None:
        self._look("barrier")

    # --- what others are told -----------------------------------------------------------------

    def finish(self, count: int) -> None:
        """No more items come."""
        self.count = count
        self.show()
        self._look("end")
        self.look_at_admission()  # a barrier run may be whole now

    def show(self) -> None:
        """Watchers see something new."""
        self.progress_dirty = True
        self.touch()
        self._look("progress")

    def happen(self, text: str, now: float) -> None:
        """People are to hear of this."""
        self.happenings.add(text, now)
        self.show()

    def touch(self) -> None:
        """News of it: what was in its way may be gone, or something new is."""
        self._look("obstacle")

    def progressed(self, now: float) -> None:
        """Something happened to one of its items."""
        self.news_at = now
        self.touch()

    def say_by(self, at: float, now: float) -> None:
        """Tell its client what is stored, not later than then."""
        self.say_at = min(self.say_at, at)
        if at <= now:
            self._look("credit")
        else:
            self.agenda.look_at("credit", self.run, at)

    def acknowledge(self, items: Iterable[int]) -> list[int]:
        """The client has these outcomes; which of them were news."""
        fresh = [item for item in items if self.outcomes.pop(item, None) is not None]
        for item in fresh:
            self.acknowledged.add(item)
        if not self.outcomes:
            self._look("end")
        return fresh

    def look_at_all(self) -> None:
        """After a start, and whenever we could not look for a while."""
        self._look("client", "model", "waiting", "barrier", "credit", "end", "progress", "expiry")
        self.touch()
        self.look_at_admission()
        self.agenda.look("plan", self.plan_key)

    def _look(self, *kinds: Look) -> None:
        for kind in kinds:
            self.agenda.look(kind, self.run)

    def _changed(self) -> None:
        if self.keeper is not None:
            self.keeper.run_changed(self)
