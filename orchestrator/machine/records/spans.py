"""Sets of item indices as sorted ranges [first, last], so that long runs stay small."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable


class Spans:
    """Adding and asking cost the number of gaps at worst, not the number of items."""

    def __init__(self, items: Iterable[int] = ()) -> None:
        self._spans: list[list[int]] = []
        for item in items:
            self.add(item)

    def add(self, item: int) -> None:
        at = bisect_right(self._spans, [item, item])
        before = self._spans[at - 1] if at else None
        if before is not None and before[1] >= item - 1:
            before[1] = max(before[1], item)
        elif at < len(self._spans) and self._spans[at][0] <= item + 1:
            self._spans[at][0] = min(item, self._spans[at][0])
        else:
            self._spans.insert(at, [item, item])
            return
        self._join(max(0, at - 1))

    def _join(self, at: int) -> None:
        while at + 1 < len(self._spans) and self._spans[at][1] >= self._spans[at + 1][0] - 1:
            self._spans[at][1] = max(self._spans[at][1], self._spans[at + 1][1])
            del self._spans[at + 1]

    def __contains__(self, item: int) -> bool:
        at = bisect_right(self._spans, [item, 1 << 62])
        return at > 0 and self._spans[at - 1][1] >= item

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self._spans)

    @property
    def highest(self) -> int:
        """The largest item, -1 if there is none."""
        return self._spans[-1][1] if self._spans else -1

    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((first, last) for first, last in self._spans)
