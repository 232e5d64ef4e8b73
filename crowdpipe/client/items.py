"""A set of item numbers that fills from below, kept small: everything under a mark, and a few."""

from __future__ import annotations


class Items:
    def __init__(self) -> None:
        self._below = 0
        self._above: set[int] = set()

    def __len__(self) -> int:
        return self._below + len(self._above)

    def __contains__(self, item: int) -> bool:
        return item < self._below or item in self._above

    def add(self, item: int) -> bool:
        """Whether it was new."""
        if item in self:
            return False
        self._above.add(item)
        while self._below in self._above:
            self._above.remove(self._below)
            self._below += 1
        return True
