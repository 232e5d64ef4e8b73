"""Members in groups, of which the largest is known at any time.

Each change costs the same, however many there are. Says nothing of what members are.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Member = TypeVar("Member", bound=Hashable)


class Groups(Generic[Member]):
    """No member twice, in any group; a group is there while it has members."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Member, None]] = {}  # oldest first
        self._of_size: dict[int, dict[str, None]] = {}
        self._group_of: dict[Member, str] = {}
        self._largest = 0

    def __len__(self) -> int:
        return len(self._group_of)

    def __contains__(self, member: Member) -> bool:
        return member in self._group_of

    def size(self, group: str) -> int:
        return len(self._groups.get(group, ()))

    @property
    def largest_size(self) -> int:
        return self._largest

    def oldest_of_largest(self) -> Member:
        """Of several that are as large, of the one that has been so for longest. `KeyError` if
        there are none."""
        group = next(iter(self._of_size[self._largest]))
        return next(iter(self._groups[group]))

    def add(self, member: Member, group: str) -> None:
        self._group_of[member] = group
        members = self._groups.setdefault(group, {})
        members[member] = None
        self._resize(group, len(members) - 1, len(members))

    def discard(self, member: Member) -> None:
        """Nothing happens if it is no member."""
        group = self._group_of.pop(member, None)
        if group is None:
            return
        members = self._groups[group]
        del members[member]
        if not members:
            del self._groups[group]
        self._resize(group, len(members) + 1, len(members))

    def _resize(self, group: str, before: int, after: int) -> None:
        if before:
            del self._of_size[before][group]
            if not self._of_size[before]:
                del self._of_size[before]
        if after:
            self._of_size.setdefault(after, {})[group] = None
        if after > self._largest or self._largest not in self._of_size:
            self._largest = after  # one more, or one less than the largest that became this
