"""Names with a rank each, the lowest first: due times, queues, what may be given up first.

A heap whose outdated entries are skipped when they come up: changing or removing a rank costs no
search, whatever the number of names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)
Entry = tuple[Any, int, Name]  # rank, serial number that breaks ties, name
SLACK = 16  # outdated entries that a small heap may have


class RankedSet(Generic[Name]):
    """Ranks of one set compare with each other. Of equal ranks the one put first comes first."""

    __slots__ = ("_entries", "_heap", "_serial")

    def __init__(self) -> None:
        self._entries: dict[Name, Entry[Name]] = {}  # each is in the heap too
        self._heap: list[Entry[Name]] = []  # at most twice as long as `_entries`, and SLACK
        self._serial = 0

    def put(self, name: Name, rank: Any) -> None:
        """Add a name, or change its rank."""
        known = self._entries.get(name)
        if known is not None and known[0] == rank:
            return
        self._serial += 1
        entry = self._entries[name] = (rank, self._serial, name)
        heappush(self._heap, entry)
        self._compact()

    def discard(self, name: Name) -> None:
        if self._entries.pop(name, None) is not None:
            self._compact()

    def first(self) -> Name | None:
        """The name of the lowest rank."""
        heap, entries = self._heap, self._entries
        while heap:
            entry = heap[0]
            if entries.get(entry[2]) is entry:
                return entry[2]
            heappop(heap)
        return None

    def rank_of(self, name: Name) -> Any:
        return self._entries[name][0]

    def first_rank(self) -> Any:
        """None if there is no name."""
        name = self.first()
        return None if name is None else self._entries[name][0]

    def _compact(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + SLACK:
            self._heap = list(self._entries.values())
            heapify(self._heap)

    def __contains__(self, name: Name) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Name]:
        """In no order."""
        return iter(self._entries)

    def in_heap(self) -> set[Name]:
        """Names that are in the heap, to check that none is lost."""
        return {name for _, _, name in self._heap if name in self._entries}
