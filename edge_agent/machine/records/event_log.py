"""The events of this boot, numbered, kept until the orchestrator acknowledges them.

At the bound, the oldest event that only informs (started, received, fetch begun, loaded, pong)
is dropped and counted, and the batch after the gap says how many numbers are missing for good;
what is done, failed or dropped, and the newest inventory, never go. An inventory supersedes the
one before it, and a new one is due when the log is `lossy`: what it lists makes up for what was
dropped. `full` says that nothing is left that may be dropped: then no task is started.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from wire.messages.events import (
    DeviceEvent,
    EventBatch,
    FrameDropped,
    Inventory,
    Pong,
    TaskDone,
    TaskFailed,
)

_KEPT = (TaskDone, TaskFailed, FrameDropped, Inventory)
_PRESSING = (TaskFailed, FrameDropped, Inventory, Pong)


class EventLog:
    def __init__(self, bound: int, batch: int) -> None:
        self._bound = bound
        self._batch = batch
        # By number, in their order; all above `_acknowledged`.
        self._events: OrderedDict[int, DeviceEvent] = OrderedDict()
        self._minor: deque[int] = deque()  # numbers of those that may be dropped, in their order
        self._inventory: int | None = None  # number of the newest inventory
        self._last = 0  # number of the newest event
        self._sent = 0  # up to here all were sent, at least once
        self._acknowledged = 0  # up to here all are known to the orchestrator
        self._pressing = 0  # number of the newest event that presses
        self.dropped = 0  # in this boot
        self.lossy = False  # something was dropped since the newest inventory
        self.unsent_since: float | None = None  # set while something was not sent yet
        self.newest_at = 0.0  # when the newest event came

    def __len__(self) -> int:
        return len(self._events)

    @property
    def full(self) -> bool:
        return len(self._events) >= self._bound and not self._minor

    @property
    def last_seq(self) -> int:
        return self._last

    @property
    def unsent(self) -> bool:
        return self._last > self._sent

    @property
    def pressing(self) -> bool:
        """An unsent event is one that somebody acts on, or whose time is measured."""
        return self._pressing > self._sent

    @property
    def acknowledged_seq(self) -> int:
        return self._acknowledged

    def since(self, seq: int) -> list[tuple[int, DeviceEvent]]:
        """What is kept of all events after `seq`, with their numbers."""
        newer = range(max(seq, self._acknowledged) + 1, self._last + 1)
        return [(each, self._events[each]) for each in newer if each in self._events]

    def append(self, event: DeviceEvent, now: float) -> None:
        self._last += 1
        self._events[self._last] = event
        self.newest_at = now
        if self.unsent_since is None:
            self.unsent_since = now
        if _is_pressing(event):
            self._pressing = self._last
        if isinstance(event, Inventory):
            self._supersede(self._last)
            self.lossy = False
        elif not isinstance(event, _KEPT):
            self._minor.append(self._last)
        while len(self._events) > self._bound and self._minor:
            self._drop(self._minor.popleft())

    def press(self) -> None:
        """The newest event does not wait either."""
        self._pressing = self._last

    def _supersede(self, seq: int) -> None:
        """The newer inventory replaces one that was not acknowledged yet."""
        if self._inventory is not None:
            self._events.pop(self._inventory, None)
        self._inventory = seq

    def _drop(self, seq: int) -> None:
        del self._events[seq]
        self.dropped += 1
        self.lossy = True

    def acknowledge(self, seq: int) -> None:
        """The orchestrator knows all up to `seq`; a number never given counts as the last."""
        self._acknowledged = max(self._acknowledged, min(seq, self._last))
        while self._events and next(iter(self._events)) <= self._acknowledged:
            self._events.popitem(last=False)
        while self._minor and self._minor[0] <= self._acknowledged:
            self._minor.popleft()
        self._sent_up_to(self._acknowledged)

    def fresh(self, boot: str, connection: str) -> list[EventBatch]:
        """What was not sent yet, in batches; from now on it counts as sent."""
        unsent = (seq for seq in range(self._sent + 1, self._last + 1) if seq in self._events)
        batches = list(self._batches(self._sent, unsent, boot, connection))
        self._sent_up_to(self._last)
        return batches

    def repeated(self, boot: str, connection: str, most: int | None = None) -> list[EventBatch]:
        """What was sent and not acknowledged, oldest first; at most so many batches of it."""
        sent = takewhile(lambda seq: seq <= self._sent, self._events)
        return list(islice(self._batches(self._acknowledged, sent, boot, connection), most))

    def _sent_up_to(self, seq: int) -> None:
        self._sent = max(self._sent, seq)
        if not self.unsent:
            self.unsent_since = None

    def _batches(
        self, after: int, seqs: Iterable[int], boot: str, connection: str
    ) -> Iterator[EventBatch]:
        """Each of consecutive numbers, and with how many are missing for good before it."""
        said = self._floor(after)
        run: list[DeviceEvent] = []
        first = after + 1
        for seq in seqs:
            if run and (seq != first + len(run) or len(run) == self._batch):
                yield EventBatch(boot, connection, first, tuple(run), first - 1 - said)
                said, run = first + len(run) - 1, []
            if not run:
                first = seq
            run.append(self._events[seq])
        if run:
            yield EventBatch(boot, connection, first, tuple(run), first - 1 - said)

    def _floor(self, after: int) -> int:
        """The last number before the batches that may still come: after the oldest event that is
        kept, all others are acknowledged, if only to an orchestrator of before, or dropped."""
        return after if self._events and next(iter(self._events)) <= after else 0


def _is_pressing(event: DeviceEvent) -> bool:
    """A parked output presses: at a barrier, the run goes on when all have reported theirs."""
    return isinstance(event, _PRESSING) or (isinstance(event, TaskDone) and event.parked)
