"""Fetches blobs into the cache with up to two threads, and answers each by one call.

The queue holds what the machine asked for: at most one entry per digest, so it is bounded by the
assignment. Threads start with the first fetch and end with `close`.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bus.link import Link
from bus.trust import Trust
from bus.vital_thread import VitalThread
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.download import Download, StoreConnection
from edge_agent.adapters.store.store_address import parse_store
from edge_agent.adapters.store.unpacking_pace import UnpackingPace
from wire.errors import CrowdpipeError, LoadFailed, StoreUnreachable, Untrusted
from wire.manifest import BlobRef

WORKERS = 2
PROGRESS_INTERVAL_S = 0.25
_log = logging.getLogger("crowdpipe.agent.fetch")


class FetchListener(Protocol):
    """Called in a fetching thread; `ended` if that fetches nothing any more."""

    def blob_progressed(self, digest: str, nbytes: int) -> None: ...
    def blob_fetched(self, digest: str, nbytes: int, fetch_s: float) -> None: ...
    def blob_failed(self, digest: str, error: CrowdpipeError, retryable: bool) -> None: ...
    def ended(self, error: CrowdpipeError) -> None: ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    blob: BlobRef
    store_base: str
    cancelled: threading.Event


class Fetcher:
    """`broker_host` is called when needed: it is known once the broker was reached. `trust` is the
    broker's, unless the store names another."""

    def __init__(
        self,
        cache: BlobCache,
        link: Link,
        listener: FetchListener,
        broker_host: Callable[[], str],
        user: str | None = None,
        secret: str | None = None,
        trust: Trust | None = None,
    ) -> None:
        self._cache = cache
        self._link = link
        self._unpacking = UnpackingPace(link)
        self._listener = listener
        self._broker_host = broker_host
        self._login = (user, secret)
        self._trust = Trust(None) if trust is None else trust
        self._guard = threading.Lock()
        self._wanted: dict[str, _Wanted] = {}
        self._queue: queue.SimpleQueue[_Wanted | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def fetch(self, blob: BlobRef, store_base: str) -> None:
        """Answered by `blob_fetched` or `blob_failed`, once."""
        with self._guard:
            if blob.digest in self._wanted:
                return
            wanted = _Wanted(blob, store_base, threading.Event())
            self._wanted[blob.digest] = wanted
            self._queue.put(wanted)
            if len(self._threads) < min(WORKERS, len(self._wanted)):
                self._start_thread()

    def cancel(self, digest: str) -> None:
        with self._guard:
            wanted = self._wanted.get(digest)
        if wanted is not None:
            wanted.cancelled.set()

    def close(self, limit_s: float = 2.0) -> None:
        """Cancel everything and wait a moment for the threads; they are daemons."""
        with self._guard:
            for wanted in self._wanted.values():
                wanted.cancelled.set()
            for _ in self._threads:
                self._queue.put(None)
        for thread in self._threads:
            thread.join(limit_s)

    def _start_thread(self) -> None:
        name = f"fetch-{len(self._threads) + 1}"
        thread = VitalThread(name, self._work, self._listener.ended)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        connection = StoreConnection(*self._login, self._trust)
        while (wanted := self._queue.get()) is not None:
            self._answer(wanted, connection)
        connection.close()

    def _answer(self, wanted: _Wanted, connection: StoreConnection) -> None:
        digest = wanted.blob.digest
        began_s = time.monotonic()
        failure: CrowdpipeError | None = None
        nbytes = 0
        try:
            nbytes = self._fetch(wanted, connection)
        except CrowdpipeError as error:
            failure = error
        except Exception as error:  # a fault of ours must not leave the machine waiting forever
            _log.exception("fetching %s", digest[:12])
            failure = LoadFailed(
                f"fetching {digest[:12]} failed: {error}; the agent's log says more"
            )
        with self._guard:
            self._wanted.pop(digest, None)
        if failure is None:
            self._listener.blob_fetched(digest, nbytes, time.monotonic() - began_s)
        else:
            # A certificate may have ended, or an address be new: the desk mends that.
            retryable = isinstance(failure, StoreUnreachable | Untrusted)
            self._listener.blob_failed(digest, failure, retryable)

    def _fetch(self, wanted: _Wanted, connection: StoreConnection) -> int:
        blob = wanted.blob
        address = parse_store(wanted.store_base, self._broker_host())
        download = Download(
            blob.digest,
            blob.nbytes,
            self._cache.part_path(blob.digest),
            progress=self._limited(blob.digest),
            cancelled=wanted.cancelled.is_set,
            measured=self._link.received,
            unpacking=self._unpacking,
        )
        download.run(connection, address)
        return self._cache.admit(blob.digest)

    def _limited(self, digest: str) -> Callable[[int], None]:
        """Progress at most four times a second: it is a person's comfort, not a log."""
        last_s = time.monotonic()

        def progressed(nbytes: int) -> None:
            nonlocal last_s
            now = time.monotonic()
            if now - last_s >= PROGRESS_INTERVAL_S:
                last_s = now
                self._listener.blob_progressed(digest, nbytes)

        return progressed
