"""Every event that devices told, each once, as an MQTT client that only watches hears them.

All processes of a benchmark run on one machine, whose monotonic clock is one for all of them: so
moments of different devices can be subtracted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from wire.errors import CrowdpipeError, TimedOut
from wire.ids import TaskId
from wire.messages.events import DeviceEvent, EventBatch, TaskDone, TaskStarted
from wire.record import decode
from wire.topics import Topics


@dataclass(frozen=True, slots=True)
class Stage:
    """One task as it went. Seconds of the monotonic clock, and durations."""

    device: str
    task: TaskId
    started_s: float
    done: TaskDone

    @property
    def compute_from_s(self) -> float:
        return self.started_s + self.done.decode_s

    @property
    def compute_until_s(self) -> float:
        return self.compute_from_s + self.done.compute_s


class Happenings:
    """`hear` is a watcher's; safe to use from several threads."""

    def __init__(self, topics: Topics | None = None) -> None:
        self._topics = Topics() if topics is None else topics
        self._changed = threading.Condition()
        self._seen: set[tuple[str, str, int]] = set()
        self._events: list[tuple[str, DeviceEvent]] = []

    def hear(self, topic: str, payload: bytes) -> None:
        """One message of any topic."""
        try:
            parsed = self._topics.parse(topic)
            if parsed.name != "events" or not payload:
                return
            batch: EventBatch = decode(EventBatch, payload)
        except CrowdpipeError:
            return  # the observation beside this one counts what cannot be read
        with self._changed:
            for seq, event in enumerate(batch.events, batch.first_seq):
                key = (parsed.variables["d"], batch.boot, seq)
                if key not in self._seen:
                    self._seen.add(key)
                    self._events.append((parsed.variables["d"], event))
            self._changed.notify_all()

    def mark(self) -> int:
        """Where `since` is to begin later."""
        with self._changed:
            return len(self._events)

    def since(self, mark: int = 0) -> list[tuple[str, DeviceEvent]]:
        with self._changed:
            return self._events[mark:]

    def wait(
        self, mark: int, until: Callable[[list[tuple[str, DeviceEvent]]], bool], limit_s: float
    ) -> list[tuple[str, DeviceEvent]]:
        """The events since `mark` once they are what `until` wants; `TimedOut` if they never are:
        events gather for some milliseconds before they are told."""
        with self._changed:
            if not self._changed.wait_for(lambda: until(self._events[mark:]), limit_s):
                raise TimedOut(f"waited {limit_s:g} s for events that did not come")
            return self._events[mark:]


def stages(events: list[tuple[str, DeviceEvent]]) -> list[Stage]:
    """The tasks that both began and ended in these events, in order of their beginning. A start
    that was not told by itself is in the end."""
    begun: dict[tuple[str, TaskId], float] = {}
    found = []
    for device, event in events:
        if isinstance(event, TaskStarted):
            begun[device, event.task] = event.at_s
        elif isinstance(event, TaskDone):
            started_s = event.started_s
            if started_s is None:
                started_s = begun.get((device, event.task))
            if started_s is not None:
                found.append(Stage(device, event.task, started_s, event))
    return sorted(found, key=lambda stage: stage.started_s)


def idle_share(found: list[Stage]) -> float:
    """Of the time from the first task's start to the last one's end, as their devices had them:
    how much no device had any."""
    tasks = sorted((stage.started_s, stage.done.at_s) for stage in found)
    until = tasks[0][0]
    idle_s = 0.0
    for started_s, ended_s in tasks:
        idle_s += max(0.0, started_s - until)
        until = max(until, ended_s)
    return idle_s / (until - tasks[0][0])


def whole_items(events: list[tuple[str, DeviceEvent]], segments: int) -> list[list[Stage]]:
    """The stages of each item that went through all of the model within these events."""
    return [each for each in by_item(stages(events)).values() if _covers(each, segments)]


def _covers(found: list[Stage], segments: int) -> bool:
    ends = [0, *(stage.task.last + 1 for stage in found)]
    return ends[:-1] == [stage.task.first for stage in found] and ends[-1] == segments


def by_item(found: list[Stage]) -> dict[tuple[str, int], list[Stage]]:
    """The stages of each (run, item), in order of the model; the last attempt of each counts."""
    items: dict[tuple[str, int], dict[int, Stage]] = {}
    for stage in found:
        items.setdefault((stage.task.run, stage.task.item), {})[stage.task.first] = stage
    return {key: [each[first] for first in sorted(each)] for key, each in items.items()}
