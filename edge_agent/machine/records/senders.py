"""Who may send inputs here, by cut: whoever has or had a place before it, as assignments tell.

Former senders stay as long as the cut is served: what they sent may still be on its way.
"""

from __future__ import annotations

from collections.abc import Iterable

from edge_agent.machine.records.partitions import Key
from wire.messages.assignment import PartitionAssignment

MOST = 1024  # senders to one cut: beyond, former ones are forgotten
Listed = frozenset[str] | None  # None: anybody


class Senders:
    def __init__(self) -> None:
        self._listed: dict[Key, Listed] = {}  # of all cuts at which a listed partition begins

    def keys(self) -> set[Key]:
        return set(self._listed)

    def admits(self, key: Key, sender: str) -> bool:
        """A cut that nobody listed senders for takes frames from anybody."""
        listed = self._listed.get(key)
        return listed is None or sender in listed

    def knows(self, sender: str) -> bool:
        """Whether any cut takes frames from it."""
        return any(listed is None or sender in listed for listed in self._listed.values())

    def list_anew(self, listing: Iterable[PartitionAssignment]) -> None:
        """Take over a new assignment's list."""
        former, self._listed = self._listed, {}
        for each in listing:
            part = each.partition
            key = (part.model, part.exact, part.first)
            before = self._listed[key] if key in self._listed else former.get(key, frozenset())
            self._listed[key] = _together(before, each.senders, key in self._listed)


def _together(before: Listed, senders: tuple[str, ...] | None, same_list: bool) -> Listed:
    """Of one list, a partition that takes from anybody opens its cut; an earlier list's does not,
    once there are names."""
    if senders is None or (before is None and same_list):
        return None
    fresh = frozenset(senders)
    both = fresh | (before or frozenset())
    return both if len(both) <= MOST else fresh
