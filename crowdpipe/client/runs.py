"""One run as its client sees it: what was offered, sent, stored, and has an outcome."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from crowdpipe.client.events import RunAsked
from crowdpipe.client.surroundings import Surroundings
from wire.due_times import NEVER
from wire.ids import ActivationId
from wire.lifecycle import Cause, Lifecycle, Table
from wire.messages.requests import ATTACHED_COUNT, ATTACHED_NBYTES
from wire.spans import Spans

FIRST_S = 0.005  # so long `submit` waits for first inputs to take along
ACK_COUNT = 16  # acknowledgements that wait for each other at most

TABLE: Table = {
    "submitting": ("accepted", "ended"),
    "accepted": ("ended",),
    "ended": (),
}


@dataclass(slots=True)
class ClientRun:
    """Every item from 0 that was offered is in exactly one of `waiting`, `in_flight`, `stored`."""

    asked: RunAsked
    life: Lifecycle
    begun_at: float
    progress_at: float  # when something last came or was offered anew
    count: int | None  # items in all, once the person or the inputs' end says it
    credit: int = 0  # inputs that may be in flight, as the orchestrator says
    granted: int = 0  # inputs that the person may offer; only rises
    offered: int = 0
    taken: int = 0  # outcomes that the person has; at most as many as are settled
    submitted: bool = False  # it was said once
    attached: int = 0  # so many of the first inputs may go with the first `submit`, …
    attached_nbytes: int = 0  # … of so many bytes together; …
    full: bool = False  # … and no more may
    waiting: OrderedDict[int, None] = field(default_factory=OrderedDict)  # to be sent, in order
    in_flight: dict[int, None] = field(default_factory=dict)  # sent, not known as stored
    stored: Spans = field(default_factory=Spans)  # on the orchestrator's disk, or past needing it
    settled: Spans = field(default_factory=Spans)  # have an outcome; all were offered
    acks: list[int] = field(default_factory=list)  # outcomes to acknowledge
    ack_at: float = NEVER  # when to; never while there is none
    repeat_at: float = 0.0  # when to submit, or to ask what there is, again
    repeat_s: float = 0.0  # the time between two such questions; doubles without progress
    unsure: bool = False  # what was said lately may be lost: ask what is there
    resuming: bool = False  # that was asked, and not answered yet
    finished: bool = False  # the count was told
    waits: tuple[str, str] | None = None  # kind and reason of what keeps it from going on
    news: tuple[int, int] = (0, 0)  # the stamp of what was told last
    put_off_s: float = 0.0  # how long it waits after it was refused for now; doubles each time

    @classmethod
    def begin(cls, asked: RunAsked, now: float, cause: Cause) -> ClientRun:
        life = Lifecycle(TABLE, "run", asked.run, "submitting", now, cause)
        return cls(asked, life, now, now, asked.count, repeat_at=now)

    @property
    def name(self) -> str:
        return self.asked.run

    @property
    def state(self) -> str:
        return self.life.state

    def input(self, item: int) -> ActivationId:
        return ActivationId(self.name, item, 0)

    @property
    def leaves(self) -> bool:
        """Nothing of it is read here."""
        return self.asked.options.detached and not self.asked.collect

    @property
    def counts_late(self) -> bool:
        """How many items there are is told at the end."""
        return self.asked.count is None and not self.asked.collect

    @property
    def unstored(self) -> int:
        return len(self.waiting) + len(self.in_flight)

    @property
    def starved(self) -> bool:
        """More inputs may come, and the orchestrator takes none: its room for them is full."""
        more = self.count is None or self.offered < self.count
        return self.state == "accepted" and more and self.credit == 0

    @property
    def doubted(self) -> bool:
        """It is collected, and may be another's by now: what comes is ours once we know better."""
        return self.asked.collect and self.offered > 0 and (self.unsure or self.resuming)

    @property
    def pending(self) -> bool:
        """Somebody else has to do something: the orchestrator, or the devices."""
        needed = self.stored if self.leaves else self.settled
        waits = self.state == "submitting" or self.offered > len(needed)
        return waits or self.starved or self.doubted

    @property
    def complete(self) -> bool:
        if self.count is None:
            return False
        if self.leaves:
            return self.state == "accepted" and len(self.stored) >= self.count
        if self.doubted:
            return False
        return len(self.settled) >= self.count

    def expect(self, items: tuple[tuple[int, int], ...]) -> int:
        """It is collected, and these outcomes come: all others count as had. How many come."""
        awaited = Spans.of_ranges(items)
        self.count = self.offered = awaited.highest + 1
        self.stored = Spans.of_ranges([(0, awaited.highest)] if items else [])
        self.settled = Spans.of_ranges(awaited.gaps())
        self.taken = len(self.settled)
        return len(awaited)

    def is_news(self, stamp: tuple[int, int]) -> bool:
        """Whether it was not told yet; then it is now."""
        news = stamp > self.news
        self.news = max(self.news, stamp)
        return news

    # --- inputs -------------------------------------------------------------------------------

    def offer(self, item: int, nbytes: int) -> None:
        """The next input is here."""
        self.offered = max(self.offered, item + 1)
        self.waiting[item] = None
        self.full = self.full or self.attached_nbytes + nbytes > ATTACHED_NBYTES
        if not self.full:
            self.attached, self.attached_nbytes = self.attached + 1, self.attached_nbytes + nbytes
            self.full = self.attached == ATTACHED_COUNT

    def send_attached(self) -> list[int]:
        """The inputs that go with the first `submit`; with its repetitions none does."""
        count = 0 if self.submitted else min(self.attached, len(self.waiting))
        self.submitted = True
        return [self._send_next() for _ in range(count)]

    def send_credited(self) -> list[int]:
        """The inputs that may go now."""
        count = max(0, min(self.credit - len(self.in_flight), len(self.waiting)))
        return [self._send_next() for _ in range(count)]

    def _send_next(self) -> int:
        item, _ = self.waiting.popitem(last=False)
        self.in_flight[item] = None
        return item

    def store(self, item: int) -> bool:
        """It need not be sent any more; whether that is news."""
        if item >= self.offered or not self.stored.add(item):
            return False
        self.waiting.pop(item, None)
        self.in_flight.pop(item, None)
        return True

    def news_in(self, ranges: tuple[tuple[int, int], ...]) -> list[int]:
        """What is not known as stored yet, of the offered items that `ranges` list."""
        return [
            item
            for first, last in ranges
            for item in self.stored.lacked(first, min(last, self.offered - 1))
        ]

    def land(self) -> None:
        """What is in flight and not known as stored is to be sent again, first of all."""
        for item in sorted(self.in_flight, reverse=True):
            self.waiting[item] = None
            self.waiting.move_to_end(item, last=False)
        self.in_flight.clear()

    def may_offer(self) -> int:
        """How many inputs in total may be offered by now. Before the run is accepted, those that
        could go with its first `submit`."""
        if self.asked.collect:
            return 0
        if self.state != "accepted":
            return min(ATTACHED_COUNT, self.asked.window)
        had = len(self.stored) if self.leaves else self.taken
        room = self.asked.window - (self.offered - had)
        return self.offered + max(0, min(self.credit - self.unstored, room))

    # --- times --------------------------------------------------------------------------------

    def submit_at(self) -> float:
        """When to submit, for the first time or again."""
        whole = self.count is not None and self.offered >= self.count
        at_once = self.submitted or self.full or whole or self.asked.collect
        return self.repeat_at if at_once else self.begun_at + FIRST_S

    def deadline(self, around: Surroundings) -> float:
        """When to give up, as things are."""
        if not self.pending:
            return NEVER
        since = self.begun_at if self.asked.total else self.progress_at
        unanswered = self.state == "submitting" and self.waits is None
        by = around.answer_by(self.begun_at) if unanswered else NEVER
        return min(since + self.asked.limit_s, by)

    def due_at(self, around: Surroundings) -> float:
        """When it needs attention, if nothing happens."""
        times = [self.deadline(around)]
        if around.connected:
            times.append(self.ack_at)
            if self.state == "submitting":
                times.append(self.submit_at())
            elif self.pending:
                times.append(self.repeat_at)
        return min(times)

    def validate(self) -> None:
        """Raise `AssertionError` if an invariant does not hold: for tests."""
        unsent = sorted([*self.waiting, *self.in_flight])
        assert unsent == list(self.stored.lacked(0, self.offered - 1)), "an input is in one place"
        assert len(self.stored) + len(unsent) == self.offered
        assert self.taken <= len(self.settled) <= self.offered
        assert not any(item in self.settled for item in unsent), "an outcome needs its input"
        assert (self.ack_at == NEVER) == (not self.acks)
        assert len(self.acks) <= ACK_COUNT
