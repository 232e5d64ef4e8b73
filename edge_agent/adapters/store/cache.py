"""Blobs on disk by digest: `blobs/<digest>`, and `blobs/<digest>.part` while one is fetched.

The folder is flat and holds plain files, because ONNX Runtime resolves a graph's external data
beside it and refuses links. An index (`blob_index`) remembers size, modification time and inode of
what was verified; a file whose stamp differs is hashed again before it may be used. What is rotten
is removed. What the device derived from blobs lies in `prepared/` and goes with them. Which blobs
to keep is the machine's decision; fetching them is in `fetch`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from pathlib import Path

from edge_agent.adapters.device.runtime_version import prepared_for
from edge_agent.adapters.store.blob_index import BlobIndex, Entry
from edge_agent.adapters.store.prepared import PreparedSegments
from wire.errors import BlobCorrupt, BlobMissing, Malformed
from wire.ids import check_digest

CHUNK_NBYTES = 1 << 18
PART_LIFETIME_S = 7 * 86400.0  # a part that nobody resumed for a week is removed at start
INDEX_NAME = "index.jsonl"


class BlobCache:
    """Safe to use from several threads; one process only (see `agent_folder`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guard = threading.RLock()
        folder.mkdir(parents=True, exist_ok=True)
        self._index = BlobIndex(folder / INDEX_NAME)
        self.prepared = PreparedSegments(folder / "prepared", prepared_for)

    def path(self, digest: str) -> Path:
        return self.folder / check_digest(digest)

    def part_path(self, digest: str) -> Path:
        return self.folder / f"{check_digest(digest)}.part"

    def scratch_path(self, digest: str) -> Path:
        """For a graph that is made from the blob and loaded beside it; removed at start."""
        return self.folder / f"{check_digest(digest)}.scratch"

    def scan(self) -> dict[str, int]:
        """Digest to bytes of all that is here and true, the least recently used first; then what
        was prepared of it, by the names of `PreparedSegments.entry`.

        Hashes what the index does not vouch for; removes rotten files and old parts.
        """
        with self._guard:
            self._index.read()
            present = {file.name for file in self.folder.iterdir() if _is_digest(file.name)}
            for digest in sorted(present):
                # The check removes what is not what its name says; it is fetched again when wanted.
                with contextlib.suppress(BlobCorrupt, BlobMissing):
                    self.check(digest)
            self._remove_old_parts()
            self._index.keep(present)
            by_use = sorted(self._index.entries.items(), key=lambda pair: pair[1].used_s)
            found = {digest: entry.nbytes for digest, entry in by_use}
            return found | self.prepared.scan(found)

    def check(self, digest: str) -> int:
        """The blob's bytes, once it is certain that it is what its name says.

        Costs a `stat` where the index vouches for it and a hash where not. Raises `BlobMissing`,
        or `BlobCorrupt` after removing the file.
        """
        with self._guard:
            status = self._status(digest)
            entry = self._index.get(digest)
            if entry is not None and entry.matches(status):
                return entry.nbytes
        return self.verify(digest)

    def verify(self, digest: str) -> int:
        """As `check`, but hashes in any case."""
        status = self._status(digest)
        found = _hash_file(self.path(digest))
        if found != digest:
            self.remove((digest,))
            raise BlobCorrupt(f"the cached blob {digest[:12]} was altered on disk; it was removed")
        self._record(digest, status)
        return status.st_size

    def admit(self, digest: str) -> int:
        """Take the finished, already checked part of `digest` as the blob itself."""
        part = self.part_path(digest)
        with self._guard:
            part.replace(self.path(digest))
            status = self._status(digest)
            self._record(digest, status)
        return status.st_size

    def touch(self, digests: tuple[str, ...]) -> None:
        """These are in use now: they are the last to be given up."""
        with self._guard:
            self._index.use(digests, time.time())

    def remove(self, digests: tuple[str, ...]) -> None:
        """Remove blobs and parts, and what was prepared of them, or that alone by the names of
        `PreparedSegments.entry`; those that are not there are gone already."""
        self.prepared.remove(digests)
        with self._guard:
            blobs = [digest for digest in digests if _is_digest(digest)]
            for digest in blobs:
                self.path(digest).unlink(missing_ok=True)
                self.part_path(digest).unlink(missing_ok=True)
            self._index.discard(blobs)

    def longest_unverified(self, age_s: float) -> str | None:
        """The digest whose verification is the oldest, if older than `age_s`; for idle time. What
        was verified at a time that is yet to come was so by a clock that was wrong."""
        now = time.time()
        with self._guard:
            ages = {
                digest: now - entry.verified_s if entry.verified_s <= now else float("inf")
                for digest, entry in self._index.entries.items()
            }
        oldest = max(ages, key=lambda digest: ages[digest], default=None)
        return oldest if oldest is not None and ages[oldest] > age_s else None

    def _status(self, digest: str) -> os.stat_result:
        try:
            return self.path(digest).lstat()
        except FileNotFoundError:
            self._index.discard((digest,))
            raise BlobMissing(f"blob {digest[:12]} is not in the cache") from None

    def _record(self, digest: str, status: os.stat_result) -> None:
        now = time.time()
        with self._guard:
            self._index.put(
                digest,
                Entry(
                    status.st_size, status.st_mtime_ns, status.st_ino, verified_s=now, used_s=now
                ),
            )

    def _remove_old_parts(self) -> None:
        oldest = time.time() - PART_LIFETIME_S
        for part in self.folder.glob("*.part"):
            if part.lstat().st_mtime < oldest:
                part.unlink(missing_ok=True)
        for scratch in self.folder.glob("*.scratch"):
            scratch.unlink(missing_ok=True)


def _hash_file(path: Path) -> str:
    hashing = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_NBYTES):
            hashing.update(chunk)
    return hashing.hexdigest()


def _is_digest(name: str) -> bool:
    try:
        return bool(check_digest(name))
    except Malformed:
        return False
