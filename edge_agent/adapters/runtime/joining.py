"""Which segments of a partition can be one session, and what each of them took in it.

Rows of a table are read before a session runs, so a segment that reads by row what its own session
would have to make first begins another. One session tells one time; plans are made from each
segment's, so its first tasks run segment by segment, and later times are shared out as theirs were.
"""

from __future__ import annotations

from collections.abc import Sequence

from wire.messages.assignment import SegmentRef

TIMED_TASKS = 3  # before segments are joined; the first has cold caches

Group = tuple[SegmentRef, ...]


def groups_of(segments: Sequence[SegmentRef]) -> tuple[Group, ...]:
    """Consecutive segments that one session can run."""
    groups: list[list[SegmentRef]] = []
    made: set[str] = set()
    for segment in segments:
        if not groups or (segment.row_tables and made & set(segment.inputs)):
            groups.append([])
            made = set()
        groups[-1].append(segment)
        made |= set(segment.outputs)
    return tuple(map(tuple, groups))


class SegmentTimes:
    """The least seconds that each segment took by itself, in the order of the partition."""

    def __init__(self) -> None:
        self._least: tuple[float, ...] = ()
        self._tasks = 0

    @property
    def known(self) -> bool:
        return self._tasks >= TIMED_TASKS

    def took(self, seconds: Sequence[float]) -> None:
        """One task."""
        self._tasks += 1
        before = self._least or seconds
        self._least = tuple(map(min, before, seconds))

    def shared_out(self, sizes: Sequence[int], seconds: Sequence[float]) -> tuple[float, ...]:
        """Seconds per segment where so many segments together took so long each."""
        shares: list[float] = []
        for size, taken in zip(sizes, seconds, strict=True):
            alone = self._least[len(shares) : len(shares) + size]
            whole = sum(alone)
            shares += [taken * (each / whole if whole else 1 / size) for each in alone]
        return tuple(shares)
