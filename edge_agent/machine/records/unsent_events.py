"""Events that were not sent yet, and so have no number: some of them need not be said any more.

Those who say them are `event_log`'s affair.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from wire.ids import ActivationId, TaskId
from wire.messages.events import (
    DeviceEvent,
    FrameDropped,
    FrameReceived,
    Inventory,
    Pong,
    TaskDone,
    TaskFailed,
    TaskStarted,
)

KEPT = (TaskDone, TaskFailed, FrameDropped, Inventory)
_PRESSING = (TaskFailed, FrameDropped, Inventory, Pong)


class UnsentEvents:
    """In their order. `since`: when the oldest of them came; `pressing`: they do not wait."""

    def __init__(self) -> None:
        self._events: OrderedDict[int, DeviceEvent] = OrderedDict()  # by place, which rises
        self._minor: OrderedDict[int, None] = OrderedDict()  # places of those that may be dropped
        self._received: dict[ActivationId, int] = {}  # places, also of some that went
        self._started: dict[TaskId, int] = {}  # the same
        self._inventory: int | None = None  # the newest one's place
        self._place = 0
        self.since: float | None = None
        self.pressing = False

    def __len__(self) -> int:
        return len(self._events)

    def __iter__(self) -> Iterator[DeviceEvent]:
        return iter(self._events.values())

    @property
    def has_minor(self) -> bool:
        return bool(self._minor)

    def append(self, event: DeviceEvent, now: float) -> None:
        if isinstance(event, TaskDone):
            self._leave_out(event.task)
        elif isinstance(event, Inventory) and self._inventory is not None:
            del self._events[self._inventory]
        self._place += 1
        self._events[self._place] = event
        self._note(event)
        self.pressing |= _is_pressing(event)
        if self.since is None:
            self.since = now

    def _note(self, event: DeviceEvent) -> None:
        if isinstance(event, Inventory):
            self._inventory = self._place
        elif not isinstance(event, KEPT):
            self._minor[self._place] = None
        if isinstance(event, TaskStarted):
            self._started[event.task] = self._place
        elif isinstance(event, FrameReceived):
            self._received.setdefault(event.activation, self._place)

    def _leave_out(self, task: TaskId) -> None:
        """It ended: that it started goes without saying, and that its input came. A copy that came
        after the start is another's."""
        started = self._started.pop(task, None)
        if started is None or started not in self._events:
            return
        self._remove(started)
        received = self._received.pop(task.needs, started)
        if received < started and received in self._events:
            self._remove(received)

    def _remove(self, place: int) -> None:
        del self._events[place]
        self._minor.pop(place, None)

    def drop(self) -> None:
        """The oldest that may be dropped."""
        self._remove(next(iter(self._minor)))
        if not self._events:
            self._clear()

    def take(self) -> list[DeviceEvent]:
        """All of them, which then are here no more."""
        events = list(self._events.values())
        self._clear()
        return events

    def _clear(self) -> None:
        for each in (self._events, self._minor, self._received, self._started):
            each.clear()
        self._inventory, self.since, self.pressing = None, None, False


def _is_pressing(event: DeviceEvent) -> bool:
    """A parked output presses: at a barrier, the run goes on when all have reported theirs."""
    return isinstance(event, _PRESSING) or (isinstance(event, TaskDone) and event.parked)
