"""A set of item numbers as sorted ranges [first, last], so that long runs stay small."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

_BEYOND = 1 << 62  # above every item


class Spans:
    """Adding and asking cost the number of gaps at worst, not the number of items."""

    def __init__(self, items: Iterable[int] = ()) -> None:
        self._spans: list[list[int]] = []  # sorted, with at least one item missing between two
        self._count = 0  # items in all spans
        for item in items:
            self.add(item)

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]]) -> Spans:
        """From ranges [first, last], ascending, with at least one item missing between two."""
        spans = cls()
        spans._spans = [[first, last] for first, last in ranges]
        spans._count = sum(last - first + 1 for first, last in spans._spans)
        return spans

    def gaps(self) -> tuple[tuple[int, int], ...]:
        """What is missing below the highest, as ranges."""
        ends = [-1, *(last for _, last in self._spans)]
        pairs = zip(ends, (first for first, _ in self._spans), strict=False)
        return tuple((end + 1, first - 1) for end, first in pairs if end + 1 < first)

    def add(self, item: int) -> bool:
        """Whether it was new."""
        at = bisect_right(self._spans, [item, _BEYOND])
        before = self._spans[at - 1] if at else None
        if before is not None and before[1] >= item:
            return False
        self._count += 1
        after = self._spans[at] if at < len(self._spans) else None
        if before is not None and before[1] == item - 1:
            before[1] = item
            if after is not None and after[0] == item + 1:
                before[1] = after[1]
                del self._spans[at]
        elif after is not None and after[0] == item + 1:
            after[0] = item
        else:
            self._spans.insert(at, [item, item])
        return True

    def __contains__(self, item: int) -> bool:
        at = bisect_right(self._spans, [item, _BEYOND])
        return at > 0 and self._spans[at - 1][1] >= item

    def __len__(self) -> int:
        return self._count

    @property
    def range_count(self) -> int:
        return len(self._spans)

    @property
    def highest(self) -> int:
        """The largest item, -1 if there is none."""
        return self._spans[-1][1] if self._spans else -1

    def ranges(self) -> tuple[tuple[int, int], ...]:
        return tuple((first, last) for first, last in self._spans)

    def without(self, other: Spans) -> Spans:
        """Its items that are not in the other; costs the gaps of both."""
        kept: list[tuple[int, int]] = []
        taken, at = other._spans, 0
        for first, last in self._spans:
            while at < len(taken) and taken[at][0] <= last:
                begin, end = taken[at]
                if first < begin:
                    kept.append((first, begin - 1))
                first = max(first, end + 1)
                if end > last:
                    break  # it may reach into the next one
                at += 1
            if first <= last:
                kept.append((first, last))
        return Spans.of_ranges(kept)

    def lacked(self, first: int, last: int) -> Iterator[int]:
        """The items from `first` to `last` that are not in it, found by its gaps."""
        at = max(0, bisect_right(self._spans, [first, _BEYOND]) - 1)
        for begin, end in self._spans[at:]:
            if begin > last:
                break
            yield from range(first, begin)
            first = max(first, end + 1)
        yield from range(first, last + 1)
