"""The events of this boot, numbered, kept until the orchestrator acknowledges them.

At the bound, the oldest event that only informs (started, received, fetch begun, loaded, pong)
is dropped and counted, and the batch after the gap says how many numbers are missing for good;
what is done, failed or dropped, and the newest inventory, never go. An inventory supersedes the
one before it, and a new one is due when the log is `lossy`: what it lists makes up for what was
dropped. `full` says that nothing is left that may go: then no task is started.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import takewhile

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
        self._events: OrderedDict[int, DeviceEvent] = OrderedDict()
        self._lesser: deque[int] = deque()
        self._inventory: int | None = None
        self._last = 0
        self._sent = 0
        self._acknowledged = 0
        self.dropped = 0
        self.lossy = False

    def __len__(self) -> int:
        return len(self._events)

    @property
    def full(self) -> bool:
        return len(self._events) >= self._bound and not self._lesser

    @property
    def last_seq(self) -> int:
        return self._last

    @property
    def unsent(self) -> bool:
        return self._last > self._sent

    @property
    def pressing(self) -> bool:
        """Something unsent waits that somebody acts on, or whose time counts."""
        newest = (self._events[seq] for seq in self._between(self._sent, self._last))
        return any(map(_is_pressing, newest))

    def append(self, event: DeviceEvent) -> None:
        self._last += 1
        self._events[self._last] = event
        if isinstance(event, Inventory):
            self._supersede(self._last)
            self.lossy = False
        elif not isinstance(event, _KEPT):
            self._lesser.append(self._last)
        while len(self._events) > self._bound and self._lesser:
            self._drop(self._lesser.popleft())

    def _supersede(self, seq: int) -> None:
        """An older inventory that nobody acknowledged says nothing that this one does not."""
        if self._inventory is not None:
            self._events.pop(self._inventory, None)
        self._inventory = seq

    def _drop(self, seq: int) -> None:
        del self._events[seq]
        self.dropped += 1
        self.lossy = True

    def acknowledge(self, seq: int) -> None:
        """Everything up to `seq` is known; a number we never gave changes nothing beyond ours."""
        self._acknowledged = max(self._acknowledged, min(seq, self._last))
        while self._events and next(iter(self._events)) <= self._acknowledged:
            self._events.popitem(last=False)
        while self._lesser and self._lesser[0] <= self._acknowledged:
            self._lesser.popleft()
        self._sent = max(self._sent, self._acknowledged)

    def fresh(self, boot: str, connection: str) -> list[EventBatch]:
        """What was not sent yet, in batches; from now on it counts as sent."""
        batches = self._batches(self._sent, self._last, boot, connection)
        self._sent = self._last
        return batches

    def repeated(self, boot: str, connection: str) -> list[EventBatch]:
        """What was sent and not acknowledged."""
        return self._batches(self._acknowledged, self._sent, boot, connection)

    def _batches(self, after: int, last: int, boot: str, connection: str) -> list[EventBatch]:
        batches: list[EventBatch] = []
        known, floor = after, self._floor(after)
        run: list[DeviceEvent] = []
        for seq in self._between(after, last):
            if run and (seq != known + len(run) + 1 or len(run) == self._batch):
                batches.append(_batch(boot, connection, known, run, batches, floor))
                known, run = known + len(run), []
            if not run:
                known = seq - 1
            run.append(self._events[seq])
        if run:
            batches.append(_batch(boot, connection, known, run, batches, floor))
        return batches

    def _floor(self, after: int) -> int:
        """The last number before the batches that may still come: after the oldest event that is
        kept, all others are acknowledged, if only to an orchestrator of before, or dropped."""
        return after if self._events and next(iter(self._events)) <= after else 0

    def _between(self, after: int, last: int) -> list[int]:
        newest_first = takewhile(lambda seq: seq > after, reversed(self._events))
        return [seq for seq in newest_first if seq <= last][::-1]


def _is_pressing(event: DeviceEvent) -> bool:
    """What is parked goes on when everybody has said so: at a barrier."""
    return isinstance(event, _PRESSING) or (isinstance(event, TaskDone) and event.parked)


def _batch(
    boot: str,
    connection: str,
    known: int,
    run: list[DeviceEvent],
    before: list[EventBatch],
    floor: int,
) -> EventBatch:
    previous = before[-1].last_seq if before else floor
    return EventBatch(boot, connection, known + 1, tuple(run), known - previous)
