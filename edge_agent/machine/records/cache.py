"""What lies on disk, by digest: which blobs, how many bytes, and which may go first.

Decides; the shell fetches and removes. A pinned blob, one that a listed or loaded partition uses,
is never chosen for removal. What was prepared of a segment counts too, under its own name
`<graph's digest>.<variant>`, and goes with the graph; it may always be chosen, since it can be
made again, but that of pinned graphs only when nothing else is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from edge_agent.machine.records.ranked_set import RankedSet


def owner_of(name: str) -> str:
    """The digest of the blob: `name` itself, or the graph that something was prepared of."""
    return name.partition(".")[0]


def _ignore(digest: str) -> None:
    """Before anybody listens."""


class Cache:
    """Verified blobs on disk, and what was prepared of them. `on_change` is called with each
    digest that came or went."""

    def __init__(self, budget_nbytes: int) -> None:
        self.on_change: Callable[[str], None] = _ignore
        self.budget_nbytes = budget_nbytes
        self.blobs: dict[str, int] = {}  # bytes by digest
        self.prepared: dict[str, int] = {}  # bytes by name
        # Gone as far as partitions are concerned; takes room until the shell says that it is gone.
        self.removing: dict[str, int] = {}
        self.nbytes = 0  # of all blobs and all that was prepared
        self.removing_nbytes = 0
        self.version = 0  # rises whenever `blobs` or `nbytes` change
        self.used_at: dict[str, float] = {}  # has exactly the names of `blobs` and `prepared`
        self.pins: dict[str, int] = {}  # users of each pinned digest, at least 1
        self.prepared_of: dict[str, dict[str, None]] = {}  # names by owner; none is empty
        # All names whose owner is not pinned, then what was prepared of pinned ones; each the
        # least recently used first, what was prepared before its blob.
        self.removable: RankedSet[str] = RankedSet()
        self.removable_at_last: RankedSet[str] = RankedSet()

    @property
    def taken_nbytes(self) -> int:
        return self.nbytes + self.removing_nbytes

    def __contains__(self, digest: str) -> bool:
        return digest in self.blobs

    def add(self, name: str, nbytes: int, now: float) -> None:
        owner = owner_of(name)
        if owner == name:
            self.nbytes += nbytes - self.blobs.get(name, 0)
            self.blobs[name] = nbytes
        else:
            self.nbytes += nbytes - self.prepared.get(name, 0)
            self.prepared[name] = nbytes
            self.prepared_of.setdefault(owner, {})[name] = None
        self.version += 1
        self.used_at[name] = now
        self._rank(name)
        self.on_change(name)

    def use(self, digests: Iterable[str], now: float) -> None:
        for digest in digests:
            for name in self._with_prepared(digest):
                if name in self.used_at:
                    self.used_at[name] = now
                    self._rank(name)

    def pin(self, digests: Iterable[str]) -> None:
        """One more user of each of these; they need not be here yet."""
        for digest in digests:
            self.pins[digest] = self.pins.get(digest, 0) + 1
            if self.pins[digest] == 1:
                self._rank_all(digest)

    def unpin(self, digests: Iterable[str]) -> None:
        for digest in digests:
            self.pins[digest] -= 1
            if not self.pins[digest]:
                del self.pins[digest]
                self._rank_all(digest)

    def discard(self, digest: str) -> None:
        """The blob was found corrupt and removed, and what was prepared of it with it."""
        for name in self._with_prepared(digest):
            self._forget(name)

    def begin_removal(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of these names that are here, and what was prepared of them, which is to go too."""
        going: list[str] = []
        for name in names:
            if name in self.used_at:
                going += self._begin_removal(name)
        return tuple(going)

    def make_room(self, nbytes: int, *, of_pinned: bool = True) -> tuple[str, ...]:
        """Begin to remove the least recently used that together have `nbytes` or more; all that may
        go if they have less. What was prepared of pinned graphs goes last, if `of_pinned`."""
        going: list[str] = []
        enough = self.nbytes - nbytes
        for removable in (self.removable, self.removable_at_last)[: 1 + of_pinned]:
            while self.nbytes > enough and (name := removable.first()) is not None:
                going += self._begin_removal(name)
        return tuple(going)

    def removed(self, names: Iterable[str]) -> None:
        """These are gone from the disk: as instructed, or because they were found corrupt."""
        for name in names:
            self.removing_nbytes -= self.removing.pop(name, 0)
            self.discard(name)
            self.on_change(name)

    def _begin_removal(self, name: str) -> list[str]:
        going = [each for each in self._with_prepared(name) if each in self.used_at]
        for each in going:
            nbytes = self.blobs[each] if each in self.blobs else self.prepared[each]
            self.removing_nbytes += nbytes - self.removing.get(each, 0)
            self.removing[each] = nbytes
            self._forget(each)
        return going

    def _with_prepared(self, name: str) -> tuple[str, ...]:
        return (name, *self.prepared_of.get(name, ()))

    def _forget(self, name: str) -> None:
        if self.used_at.pop(name, None) is None:
            return
        self.nbytes -= self.blobs.pop(name, 0) + self.prepared.pop(name, 0)
        self.version += 1
        self.removable.discard(name)
        self.removable_at_last.discard(name)
        owner = owner_of(name)
        if owner != name:
            names = self.prepared_of[owner]
            del names[name]
            if not names:
                del self.prepared_of[owner]
        self.on_change(name)

    def _rank_all(self, digest: str) -> None:
        for name in self._with_prepared(digest):
            if name in self.used_at:
                self._rank(name)

    def _rank(self, name: str) -> None:
        pinned = owner_of(name) in self.pins
        is_blob = name in self.blobs
        rank = (self.used_at[name], is_blob, name)
        if not pinned:
            self.removable_at_last.discard(name)
            self.removable.put(name, rank)
        else:
            self.removable.discard(name)
            if not is_blob:
                self.removable_at_last.put(name, rank)
