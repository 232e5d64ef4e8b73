"""Fetches under way, and those that wait for another try.

At most `parallel_fetches` at once, one per digest. Retryable failures are tried again up to
`fetch_tries` times with a doubling pause; then the blob counts as failed until a new assignment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edge_agent.machine.records.limits import AgentLimits
from edge_agent.machine.records.ranked_set import RankedSet
from wire.manifest import BlobRef
from wire.messages.residency import Failure


@dataclass
class Fetch:
    """One under way."""

    blob: BlobRef
    nbytes: int = 0  # on disk so far, as last heard
    cancelling: bool = False  # cancelled, and the shell has not answered yet


def _ignore(digest: str) -> None:
    """Before anybody listens."""


class Fetches:
    """`on_change` is called with each digest of which anything here changed."""

    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self.on_change: Callable[[str], None] = _ignore
        self.active: dict[str, Fetch] = {}  # at most `parallel_fetches`
        self.failed: dict[str, Failure] = {}  # for good; none of them is active
        self.tries: dict[str, int] = {}  # failed ones by digest, since the last success
        self.paused: RankedSet[str] = RankedSet()  # by when to try again; has `tries`, not active

    @property
    def reserved_nbytes(self) -> int:
        """Room on disk that running fetches will take."""
        return sum(fetch.blob.nbytes for fetch in self.active.values())

    @property
    def may_start_one(self) -> bool:
        return len(self.active) < self._limits.parallel_fetches

    def may_start(self, digest: str) -> bool:
        return not (digest in self.active or digest in self.failed or digest in self.paused)

    def begin(self, blob: BlobRef) -> None:
        self.active[blob.digest] = Fetch(blob)
        self.on_change(blob.digest)

    def progress(self, digest: str, nbytes: int) -> None:
        fetch = self.active.get(digest)
        if fetch is not None and fetch.nbytes != nbytes:
            fetch.nbytes = nbytes
            self.on_change(digest)

    def nbytes_of(self, digest: str) -> int:
        fetch = self.active.get(digest)
        return fetch.nbytes if fetch else 0

    def cancel(self, digest: str) -> bool:
        """Whether there is anything to cancel; the fetch stays until the shell answers."""
        fetch = self.active.get(digest)
        if fetch is None or fetch.cancelling:
            return False
        fetch.cancelling = True
        return True

    def done(self, digest: str) -> None:
        self.active.pop(digest, None)
        self.tries.pop(digest, None)
        self.failed.pop(digest, None)
        self.paused.discard(digest)
        self.on_change(digest)

    def fail(self, digest: str, failure: Failure, retryable: bool, now: float) -> None:
        fetch = self.active.pop(digest, None)
        if fetch is None:
            return
        if not fetch.cancelling:
            self._failed(digest, failure, retryable, now)
        self.on_change(digest)

    def _failed(self, digest: str, failure: Failure, retryable: bool, now: float) -> None:
        tries = self.tries.pop(digest, 0) + 1
        if not retryable or tries >= self._limits.fetch_tries:
            self.failed[digest] = failure
            return
        pause_s = min(self._limits.backoff_s * 2.0 ** (tries - 1), self._limits.backoff_max_s)
        self.tries[digest] = tries
        self.paused.put(digest, now + pause_s)

    def resume_due(self, now: float) -> None:
        """Those whose pause is over may start again."""
        while (digest := self.paused.first()) is not None and self.paused.rank_of(digest) <= now:
            self.paused.discard(digest)
            self.on_change(digest)

    def forget_failures(self) -> None:
        """A new assignment: whatever failed is worth another try, at once."""
        forgotten = [*self.failed, *self.paused]
        self.tries.clear()
        self.failed.clear()
        self.paused = RankedSet()
        for digest in forgotten:
            self.on_change(digest)

    def wake_at(self) -> float | None:
        """When the first pause is over."""
        due_at: float | None = self.paused.first_rank()
        return due_at
