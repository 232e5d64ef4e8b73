"""What is to be looked at: at once, because an event touched it, or at a time.

Each entry is a kind of look and the name of what is looked at. The methods that change an entity
put it here, so that after an event only what it touched is looked at, and what is due. Looks
that come too early cost a look, and nothing else: each says itself when it wants to look again.
What a look does is decided by the rules in the folders beside this.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Literal

Look = Literal[
    "attached",  # run: its attached inputs are here, or have waited long enough
    "device",  # device: its lease, and whether it must answer a ping
    "unproven",  # "": devices of which only retained words are known are asked in turn
    "absence",  # device: how long nobody heard of it, and whether it is to be forgotten
    "contested",  # "": names that two agents use are told to people
    "fleet",  # device: it came, or went, for plans that wait for one or use it
    "refusal",  # device and partition: it may be asked for it again
    "idle",  # "": devices that were not heard of are asked, because work waits
    "client",  # run: whether its client is still there
    "model",  # run: its model may still come from the store
    "orphans",  # "": devices that serve a model which did not come back
    "search",  # search: it was never answered
    "plan",  # plan: made, kept, judged, replaced, or given up
    "overfull",  # device: it serves more than it can hold, so items go home
    "admission",  # plan: items that may enter now
    "waiting",  # run: items that wait too long to be admitted
    "assignment due",  # plan: partitions that are to be assigned by now
    "item",  # item: nothing was heard of it, or it is to be sent again
    "late",  # item: its tasks that were begun and not done, or never came
    "barrier",  # run: cuts that its wave may pass
    "moves",  # plan: what people are told of partitions that moved
    "credit",  # run: its client is told what is stored
    "room",  # "": room for inputs came free, for runs that were refused credit
    "obstacle",  # run: what keeps it from going on
    "end",  # run: done, failed, or wholly fetched
    "progress",  # run: published for watchers
    "expiry",  # run: nobody fetched its results
    "clear",  # run: its retained progress is cleared
    "assignment",  # device: its assignment is written out, and published if it changed
]
Name = Hashable
NEVER = float("inf")
ROOMY = 64  # stale heap entries that are not worth sweeping out


class Agenda:
    """A name is at most once on each list, and has at most one time.

    `_at` has the time that counts; heap entries that it does not agree with are stale.
    """

    def __init__(self) -> None:
        self._now: dict[Look, dict[Name, None]] = {}
        self._at: dict[tuple[Look, Name], float] = {}
        self._heap: list[tuple[float, int, Look, Name]] = []
        self._order = count()

    def look(self, kind: Look, name: Name) -> None:
        """With this event."""
        names = self._now.get(kind)
        if names is None:
            names = self._now[kind] = {}
        names[name] = None

    def look_at(self, kind: Look, name: Name, at: float) -> None:
        """Not later than at this time; an earlier one that is set stays."""
        if at == NEVER:
            return
        known = self._at.get((kind, name))
        if known is None or at < known:
            self._at[kind, name] = at
            heapq.heappush(self._heap, (at, next(self._order), kind, name))
            if len(self._heap) > 2 * len(self._at) + ROOMY:
                self._sweep()

    def forget(self, kind: Look, name: Name) -> None:
        """It is gone: nothing of it is looked at any more."""
        self._at.pop((kind, name), None)
        self._now.get(kind, {}).pop(name, None)

    def take(self, kind: Look) -> tuple[Name, ...]:
        """What is to be looked at now, in the order in which it was put here."""
        names = self._now.pop(kind, None)
        return tuple(names) if names is not None else ()

    def advance(self, now: float) -> bool:
        """Bring in what is due; whether there is anything to look at."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, kind, name = heapq.heappop(heap)
            if self._at.get((kind, name)) == at:
                del self._at[kind, name]
                self.look(kind, name)
        return bool(self._now)

    @property
    def wake_at(self) -> float:
        """When the next look is due; at once if something was left over."""
        if self._now:
            return -NEVER
        heap = self._heap
        while heap and self._at.get((heap[0][2], heap[0][3])) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else NEVER

    def due_at(self, kind: Look, name: Name) -> float:
        """For those who check: the time that is set, `NEVER` if none is."""
        return self._at.get((kind, name), NEVER)

    def _sweep(self) -> None:
        self._heap = [each for each in self._heap if self._at.get((each[2], each[3])) == each[0]]
        heapq.heapify(self._heap)
