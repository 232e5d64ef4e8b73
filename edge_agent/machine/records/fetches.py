"""Fetches under way, and those that wait for another try.

At most `parallel_fetches` at once, one per digest. Retryable failures are tried again up to
`fetch_tries` times with a doubling pause; then the blob counts as failed until a new assignment.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.machine.records.limits import AgentLimits
from wire.manifest import BlobRef
from wire.messages.residency import Failure


@dataclass
class Fetch:
    blob: BlobRef
    nbytes: int = 0
    cancelling: bool = False


@dataclass(frozen=True)
class Trouble:
    tries: int
    retry_at: float


class Fetches:
    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self.active: dict[str, Fetch] = {}
        self.troubles: dict[str, Trouble] = {}
        self.failed: dict[str, Failure] = {}

    @property
    def reserved_nbytes(self) -> int:
        """Room on disk that running fetches will take."""
        return sum(fetch.blob.nbytes for fetch in self.active.values())

    @property
    def has_slot(self) -> bool:
        return len(self.active) < self._limits.parallel_fetches

    def may_start(self, digest: str, now: float) -> bool:
        trouble = self.troubles.get(digest)
        paused = trouble is not None and trouble.retry_at > now
        return digest not in self.active and digest not in self.failed and not paused

    def begin(self, blob: BlobRef) -> None:
        self.active[blob.digest] = Fetch(blob)

    def progress(self, digest: str, nbytes: int) -> None:
        if digest in self.active:
            self.active[digest].nbytes = nbytes

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
        self.troubles.pop(digest, None)
        self.failed.pop(digest, None)

    def fail(self, digest: str, failure: Failure, retryable: bool, now: float) -> None:
        fetch = self.active.pop(digest, None)
        if fetch is None or fetch.cancelling:
            return
        before = self.troubles.pop(digest, None)
        tries = before.tries + 1 if before else 1
        if not retryable or tries >= self._limits.fetch_tries:
            self.failed[digest] = failure
            return
        pause = min(self._limits.backoff_s * 2.0 ** (tries - 1), self._limits.backoff_max_s)
        self.troubles[digest] = Trouble(tries, now + pause)

    def forgive(self) -> None:
        """A new assignment: whatever failed is worth another try, at once."""
        self.troubles.clear()
        self.failed.clear()

    def wake_at(self, now: float) -> float | None:
        later = (t.retry_at for t in self.troubles.values() if t.retry_at > now)
        return min(later, default=None)
