"""The events of this boot, kept until the orchestrator acknowledges them.

They are numbered when they are sent. At the bound, the oldest event that only informs (started,
received, fetch begun, loaded, pong) is dropped and counted, and the batch after the gap says how
many numbers are missing for good; what is done, failed or dropped, and the newest inventory, never
go. An inventory supersedes the one before it, and a new one is due when the log is `lossy`: what it
lists makes up for what was dropped. `full` says that nothing is left that may be dropped: then no
task is started.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice

from edge_agent.machine.records.unsent_events import KEPT, UnsentEvents
from wire.messages.events import DeviceEvent, EventBatch, Inventory


class EventLog:
    def __init__(self, bound: int, batch: int) -> None:
        self._bound = bound
        self._batch = batch
        self._unsent = UnsentEvents()
        # By number, in their order; all above `_acknowledged`.
        self._sent: OrderedDict[int, DeviceEvent] = OrderedDict()
        self._minor: deque[int] = deque()  # numbers of those that may be dropped, in their order
        self._inventory: int | None = None  # number of the newest inventory that was sent
        self._last = 0  # number of the newest that was sent
        self._acknowledged = 0  # up to here all are known to the orchestrator
        self.dropped = 0  # in this boot
        self.lossy = False  # something was dropped since the newest inventory
        self.newest_at = 0.0  # when the newest event came

    def __len__(self) -> int:
        return len(self._sent) + len(self._unsent)

    @property
    def full(self) -> bool:
        return len(self) >= self._bound and not (self._minor or self._unsent.has_minor)

    @property
    def last_seq(self) -> int:
        return self._last

    @property
    def unsent(self) -> bool:
        return len(self._unsent) > 0

    @property
    def unsent_since(self) -> float | None:
        """When the oldest came of those that were not sent yet."""
        return self._unsent.since

    @property
    def pressing(self) -> bool:
        """An unsent event is one that somebody acts on, or whose time is measured."""
        return self._unsent.pressing

    @property
    def acknowledged_seq(self) -> int:
        return self._acknowledged

    @property
    def kept(self) -> list[DeviceEvent]:
        """All of them, in their order."""
        return [*self._sent.values(), *self._unsent]

    def append(self, event: DeviceEvent, now: float) -> None:
        self.newest_at = now
        if isinstance(event, Inventory):
            self._supersede()
            self.lossy = False
        self._unsent.append(event, now)
        while len(self) > self._bound and (self._minor or self._unsent.has_minor):
            self._drop()

    def press(self) -> None:
        """The newest event does not wait either."""
        self._unsent.pressing = self.unsent

    def _supersede(self) -> None:
        """The newer inventory replaces one that was not acknowledged yet."""
        if self._inventory is not None:
            self._sent.pop(self._inventory, None)
            self._inventory = None

    def _drop(self) -> None:
        """The oldest that may go."""
        if self._minor:
            del self._sent[self._minor.popleft()]
        else:
            self._unsent.drop()
        self.dropped += 1
        self.lossy = True

    def acknowledge(self, seq: int) -> None:
        """The orchestrator knows all up to `seq`; a number never given counts as the last."""
        self._acknowledged = max(self._acknowledged, min(seq, self._last))
        while self._sent and next(iter(self._sent)) <= self._acknowledged:
            self._sent.popitem(last=False)
        while self._minor and self._minor[0] <= self._acknowledged:
            self._minor.popleft()

    def fresh(self, boot: str, connection: str) -> list[EventBatch]:
        """What was not sent yet, in batches; from now on it counts as sent."""
        before, fresh = self._last, self._unsent.take()
        numbered = list(enumerate(fresh, before + 1))
        self._last += len(fresh)
        for seq, event in numbered:
            self._sent[seq] = event
            if isinstance(event, Inventory):
                self._inventory = seq
            elif not isinstance(event, KEPT):
                self._minor.append(seq)
        return list(self._batches(before, numbered, boot, connection))

    def repeated(self, boot: str, connection: str, most: int | None = None) -> list[EventBatch]:
        """What was sent and not acknowledged, oldest first; at most so many batches of it."""
        sent = self._sent.items()
        return list(islice(self._batches(self._acknowledged, sent, boot, connection), most))

    def _batches(
        self, after: int, numbered: Iterable[tuple[int, DeviceEvent]], boot: str, connection: str
    ) -> Iterator[EventBatch]:
        """Each of consecutive numbers, and with how many are missing for good before it."""
        said = self._floor(after)
        run: list[DeviceEvent] = []
        first = after + 1
        for seq, event in numbered:
            if run and (seq != first + len(run) or len(run) == self._batch):
                yield EventBatch(boot, connection, first, tuple(run), first - 1 - said)
                said, run = first + len(run) - 1, []
            if not run:
                first = seq
            run.append(event)
        if run:
            yield EventBatch(boot, connection, first, tuple(run), first - 1 - said)

    def _floor(self, after: int) -> int:
        """The last number before the batches that may still come: after the oldest event that is
        kept, all others are acknowledged, if only to an orchestrator of before, or dropped."""
        return after if self._sent and next(iter(self._sent)) <= after else 0
