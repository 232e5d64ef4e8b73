"""Blobs on disk by digest: `blobs/<digest>`, and `blobs/<digest>.part` while one is fetched.

The folder is flat and holds plain files, because ONNX Runtime resolves a graph's external data
beside it and refuses links. An index remembers size, modification time and inode of what was
verified; a file whose stamp differs is hashed again before it may be used. What is rotten is
removed. What the device derived from blobs lies in `prepared/` and goes with them. Which blobs to
keep is the machine's decision; fetching is `fetch`'s.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edge_agent.adapters.device.runtime_version import prepared_for
from edge_agent.adapters.store.prepared import PreparedSegments
from wire.errors import BlobCorrupt, BlobMissing, Malformed
from wire.ids import check_digest

CHUNK_NBYTES = 1 << 18
PART_LIFETIME_S = 7 * 86400.0  # a part that nobody resumed for a week is removed at start
INDEX_NAME = "index.json"
LARGEST_INDEX_NBYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """What was verified, and when (seconds since the epoch, by this device's clock)."""

    nbytes: int
    mtime_ns: int
    inode: int
    verified_s: float
    used_s: float

    def matches(self, status: os.stat_result) -> bool:
        stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
        return stamp == (self.nbytes, self.mtime_ns, self.inode)


class BlobCache:
    """Safe to use from several threads; one process only (see `agent_folder`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guard = threading.RLock()
        self._entries: dict[str, Entry] = {}
        folder.mkdir(parents=True, exist_ok=True)
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
            self._entries = _read_index(self.folder / INDEX_NAME)
            present = {file.name for file in self.folder.iterdir() if _is_digest(file.name)}
            self._entries = {name: e for name, e in self._entries.items() if name in present}
            for digest in sorted(present):
                # The check removes what is not what its name says; it is fetched again when wanted.
                with contextlib.suppress(BlobCorrupt, BlobMissing):
                    self.check(digest)
            self._remove_old_parts()
            self._write_index()
            by_use = sorted(self._entries.items(), key=lambda pair: pair[1].used_s)
            found = {digest: entry.nbytes for digest, entry in by_use}
            return found | self.prepared.scan(found)

    def check(self, digest: str) -> int:
        """The blob's bytes, once it is certain that it is what its name says.

        Costs a `stat` where the index vouches for it and a hash where not. Raises `BlobMissing`,
        or `BlobCorrupt` after removing the file.
        """
        with self._guard:
            status = self._status(digest)
            entry = self._entries.get(digest)
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
            now = time.time()
            for digest in digests:
                if digest in self._entries:
                    self._entries[digest] = replace(self._entries[digest], used_s=now)
            self._write_index()

    def remove(self, digests: tuple[str, ...]) -> None:
        """Remove blobs and parts, and what was prepared of them, or that alone by the names of
        `PreparedSegments.entry`; those that are not there are gone already."""
        self.prepared.remove(digests)
        with self._guard:
            for digest in filter(_is_digest, digests):
                self.path(digest).unlink(missing_ok=True)
                self.part_path(digest).unlink(missing_ok=True)
                self._entries.pop(digest, None)
            self._write_index()

    def longest_unverified(self, age_s: float) -> str | None:
        """The digest whose verification is the oldest, if older than `age_s`; for idle time."""
        with self._guard:
            entries = self._entries.items()
            digest, entry = min(entries, key=lambda e: e[1].verified_s, default=(None, None))
        old = entry is not None and time.time() - entry.verified_s > age_s
        return digest if old else None

    def _status(self, digest: str) -> os.stat_result:
        try:
            return self.path(digest).lstat()
        except FileNotFoundError:
            self._entries.pop(digest, None)
            raise BlobMissing(f"blob {digest[:12]} is not in the cache") from None

    def _record(self, digest: str, status: os.stat_result) -> None:
        now = time.time()
        with self._guard:
            self._entries[digest] = Entry(
                status.st_size, status.st_mtime_ns, status.st_ino, verified_s=now, used_s=now
            )
            self._write_index()

    def _remove_old_parts(self) -> None:
        oldest = time.time() - PART_LIFETIME_S
        for part in self.folder.glob("*.part"):
            if part.lstat().st_mtime < oldest:
                part.unlink(missing_ok=True)
        for scratch in self.folder.glob("*.scratch"):
            scratch.unlink(missing_ok=True)

    def _write_index(self) -> None:
        """Atomic; not synced, since a lost index costs only hashing."""
        plain = {digest: asdict(entry) for digest, entry in self._entries.items()}
        fresh = self.folder / f"{INDEX_NAME}.new"
        fresh.write_text(json.dumps(plain), encoding="utf-8")
        fresh.replace(self.folder / INDEX_NAME)


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


def _read_index(path: Path) -> dict[str, Entry]:
    """What the index says; nothing if it cannot be read, which costs only hashing."""
    try:
        if path.stat().st_size > LARGEST_INDEX_NBYTES:
            return {}
        plain: dict[str, Any] = json.loads(path.read_bytes())
        return {digest: Entry(**fields) for digest, fields in plain.items() if _is_digest(digest)}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
