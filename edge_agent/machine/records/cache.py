"""What lies on disk, by digest: which blobs, how many bytes, and which may go first.

Decides; the shell fetches and removes. A blob that a listed or loaded partition uses is never
chosen for removal. What was prepared of a segment counts too, under its own name
`<graph's digest>.<variant>`, and goes with the graph; it may always be chosen, since it can be
made again, but that of partitions in use only when nothing else is left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


def owner_of(name: str) -> str:
    """The digest of the blob: `name` itself, or the graph that something was prepared of."""
    return name.partition(".")[0]


class Cache:
    """Verified blobs on disk, and what was prepared of them. `removing` are gone as far as
    partitions are concerned, but take room until the shell says so."""

    def __init__(self, budget_nbytes: int) -> None:
        self.budget_nbytes = budget_nbytes
        self.blobs: dict[str, int] = {}
        self.prepared: dict[str, int] = {}
        self.removing: dict[str, int] = {}
        self._used_at: dict[str, float] = {}

    @property
    def nbytes(self) -> int:
        return sum(self.blobs.values()) + sum(self.prepared.values())

    @property
    def taken_nbytes(self) -> int:
        return self.nbytes + sum(self.removing.values())

    def __contains__(self, digest: str) -> bool:
        return digest in self.blobs

    def add(self, name: str, nbytes: int, now: float) -> None:
        kept = self.blobs if owner_of(name) == name else self.prepared
        kept[name] = nbytes
        self._used_at[name] = now

    def use(self, digests: Iterable[str], now: float) -> None:
        wanted = set(digests)
        for name in self._used_at:
            if owner_of(name) in wanted:
                self._used_at[name] = now

    def discard(self, digest: str) -> None:
        """The blob is gone by itself (found corrupt), and what was prepared of it with it."""
        for name in (digest, *self._prepared_of(digest)):
            self.blobs.pop(name, None)
            self.prepared.pop(name, None)
            self._used_at.pop(name, None)

    def _prepared_of(self, digest: str) -> list[str]:
        return [name for name in self.prepared if owner_of(name) == digest]

    def begin_removal(self, names: Iterable[str]) -> tuple[str, ...]:
        there = self.blobs | self.prepared
        wanted = [name for name in names if name in there]
        going = dict.fromkeys(n for name in wanted for n in (name, *self._prepared_of(name)))
        for name in going:
            self.removing[name] = there[name]
            self.discard(name)
        return tuple(going)

    def removed(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self.removing.pop(digest, None)
            self.discard(digest)

    def victims(
        self, nbytes: int, pinned: Collection[str], *, of_pinned: bool = True
    ) -> tuple[str, ...]:
        """The least recently used, blobs only if not `pinned`, that together have `nbytes` or
        more; all there are if they have less. What was prepared goes before its blob, and that of
        pinned blobs last, if `of_pinned` lets it."""
        there = self.blobs | self.prepared
        chosen: list[str] = []
        free = 0
        for name in sorted(there, key=lambda name: self._worth(name, pinned)):
            if free >= nbytes:
                break
            in_use = owner_of(name) in pinned
            if not in_use or (of_pinned and name in self.prepared):
                chosen.append(name)
                free += there[name]
        return tuple(chosen)

    def _worth(self, name: str, pinned: Collection[str]) -> tuple[bool, float, bool, str]:
        return (owner_of(name) in pinned, self._used_at[name], name in self.blobs, name)
