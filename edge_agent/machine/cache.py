"""What lies on disk, by digest: which blobs, how many bytes, and which may go first.

Decides; the shell fetches and removes. A blob that a listed or loaded partition uses is never
chosen for removal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


class Cache:
    """Verified blobs on disk. `removing` are gone as far as partitions are concerned, but take
    room until the shell says so."""

    def __init__(self, budget_nbytes: int) -> None:
        self.budget_nbytes = budget_nbytes
        self.blobs: dict[str, int] = {}
        self.removing: dict[str, int] = {}
        self._used_at: dict[str, float] = {}

    @property
    def nbytes(self) -> int:
        return sum(self.blobs.values())

    @property
    def taken_nbytes(self) -> int:
        return self.nbytes + sum(self.removing.values())

    def __contains__(self, digest: str) -> bool:
        return digest in self.blobs

    def add(self, digest: str, nbytes: int, now: float) -> None:
        self.blobs[digest] = nbytes
        self._used_at[digest] = now

    def use(self, digests: Iterable[str], now: float) -> None:
        for digest in digests:
            if digest in self.blobs:
                self._used_at[digest] = now

    def discard(self, digest: str) -> None:
        """The blob is gone by itself (found corrupt)."""
        self.blobs.pop(digest, None)
        self._used_at.pop(digest, None)

    def begin_removal(self, digests: Iterable[str]) -> tuple[str, ...]:
        going = tuple(digest for digest in digests if digest in self.blobs)
        for digest in going:
            self.removing[digest] = self.blobs[digest]
            self.discard(digest)
        return going

    def removed(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self.removing.pop(digest, None)
            self.discard(digest)

    def victims(self, nbytes: int, pinned: Collection[str]) -> tuple[str, ...]:
        """The least recently used blobs, not `pinned`, that together have `nbytes` or more; all
        there are if they have less."""
        chosen: list[str] = []
        free = 0
        for digest in sorted(self.blobs, key=lambda name: (self._used_at[name], name)):
            if free >= nbytes:
                break
            if digest not in pinned:
                chosen.append(digest)
                free += self.blobs[digest]
        return tuple(chosen)
