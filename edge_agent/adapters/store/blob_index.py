"""What was verified of the cached blobs, as a log on disk: one line of JSON for each change.

A change costs its own line, however many blobs there are: flash wears by what is written. The log
is written anew, one line for each blob, at start and when it has grown to several times that. It
is not synced, and a line that cannot be read is skipped: what is lost costs only hashing. Whether
files are what the log says is checked in `cache`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

from wire.errors import Malformed
from wire.ids import check_digest

LARGEST_NBYTES = 16 << 20  # of a larger log nothing is read
LINE_NBYTES = 4096  # no line is longer
GROWTH = 4  # times its size when it was written anew …
SLACK_NBYTES = 64 << 10  # … and this: then it is written anew again


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


class BlobIndex:
    """Not safe to use from several threads: its owner has the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, Entry] = {}
        self._log: IO[bytes] | None = None
        self._nbytes = 0  # of the log now
        self._most_nbytes = SLACK_NBYTES  # at which it is written anew

    @property
    def entries(self) -> Mapping[str, Entry]:
        """By digest."""
        return self._entries

    def read(self) -> None:
        """Know what the log says, and nothing else."""
        self._entries = {}
        for line in _lines(self._path):
            try:
                self._take_over(json.loads(line))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError, Malformed):
                continue  # torn, or by another hand

    def _take_over(self, change: dict[str, Any]) -> None:
        if "gone" in change:
            for digest in change["gone"]:
                self._entries.pop(digest, None)
        elif "used" in change:
            for digest in change["used"]:
                self._use(digest, float(change["used_s"]))
        else:
            digest = check_digest(change.pop("digest"))
            self._entries[digest] = Entry(**change)

    def get(self, digest: str) -> Entry | None:
        return self._entries.get(digest)

    def put(self, digest: str, entry: Entry) -> None:
        self._entries[digest] = entry
        self._append({"digest": digest, **asdict(entry)})

    def use(self, digests: Iterable[str], used_s: float) -> None:
        known = [digest for digest in digests if digest in self._entries]
        for digest in known:
            self._use(digest, used_s)
        if known:
            self._append({"used": known, "used_s": used_s})

    def discard(self, digests: Iterable[str]) -> None:
        gone = [digest for digest in digests if self._entries.pop(digest, None) is not None]
        if gone:
            self._append({"gone": gone})

    def keep(self, digests: Iterable[str]) -> None:
        """Forget all others, and write the log anew."""
        kept = set(digests)
        self._entries = {name: entry for name, entry in self._entries.items() if name in kept}
        self.rewrite()

    def rewrite(self) -> None:
        """The log as short as it can be; atomic."""
        entries = self._entries.items()
        lines = [_line({"digest": digest, **asdict(entry)}) for digest, entry in entries]
        self._close()
        fresh = self._path.with_name(f"{self._path.name}.new")
        fresh.write_bytes(b"".join(lines))
        fresh.replace(self._path)
        self._nbytes = sum(map(len, lines))
        grown = min(GROWTH * self._nbytes + SLACK_NBYTES, LARGEST_NBYTES - LINE_NBYTES)
        self._most_nbytes = max(self._nbytes, grown)

    def _use(self, digest: str, used_s: float) -> None:
        entry = self._entries.get(digest)
        if entry is not None:
            self._entries[digest] = replace(entry, used_s=used_s)

    def _append(self, change: dict[str, Any]) -> None:
        if self._log is None:
            self._log = self._path.open("ab", buffering=0)
            self._nbytes = self._log.tell()
            self._write(b"\n")  # ends a line that was torn
        self._write(_line(change))
        if self._nbytes > self._most_nbytes:
            self.rewrite()

    def _write(self, data: bytes) -> None:
        assert self._log is not None
        self._log.write(data)
        self._nbytes += len(data)

    def _close(self) -> None:
        if self._log is not None:
            self._log.close()
        self._log = None


def _line(change: dict[str, Any]) -> bytes:
    return json.dumps(change, separators=(",", ":")).encode() + b"\n"


def _lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_NBYTES + 1)
    except OSError:
        return []
    return data.splitlines() if len(data) <= LARGEST_NBYTES else []
