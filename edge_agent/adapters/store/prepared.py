"""What this device derived from segments: graphs as ONNX Runtime runs them, and packed weights.

`<segment's graph digest>.<exact|fast>/` holds `graph`, `weights` if there are any, and `record`,
which says for which runtime and processor they were made, and each file's SHA-256, size,
modification time and inode. Files whose stamp differs are hashed again before they are used; what
is not as recorded, or was made for another runtime or processor, is removed. Nothing of it ever
leaves the device. It is made in `runtime.segment_loader`; which copies to keep is the
machine's decision, by the entry's name, as for blobs.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GRAPH, WEIGHTS, RECORD = "graph", "weights", "record"
CHUNK_NBYTES = 1 << 18
LARGEST_RECORD_NBYTES = 1 << 16
_UNFINISHED = ".unfinished"


@dataclass(frozen=True, slots=True)
class Stamp:
    """One file as it was when it was hashed."""

    name: str
    sha256: str
    nbytes: int
    mtime_ns: int
    inode: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """Paths of one prepared segment; `weights` need not exist."""

    graph: Path
    weights: Path


class PreparedSegments:
    """`made_for` names runtime and processor. Used in the executor's thread, removed from in the
    main thread: what is removed while it is mapped stays readable until it is unmapped."""

    def __init__(self, folder: Path, made_for: Callable[[], str]) -> None:
        self.folder = folder
        self._made_for = made_for
        self._made: dict[str, int] = {}

    @staticmethod
    def entry(digest: str, exact: bool) -> str:
        return f"{digest}.{'exact' if exact else 'fast'}"

    def scan(self, digests: Collection[str]) -> dict[str, int]:
        """Entry to bytes of all that is here, derived from `digests`, for this runtime and
        processor; everything else is removed."""
        found: dict[str, int] = {}
        for folder in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            stamps = self._stamps(folder)
            if folder.name.partition(".")[0] in digests and stamps is not None:
                found[folder.name] = sum(stamp.nbytes for stamp in stamps)
            else:
                _remove(folder)
        return found

    def find(self, digest: str, exact: bool) -> Prepared | None:
        """The prepared segment, once it is certain that it is what was written."""
        folder = self.folder / self.entry(digest, exact)
        stamps = self._stamps(folder)
        if stamps is None:
            return None
        if all(_vouched(folder / stamp.name, stamp) for stamp in stamps):
            return Prepared(folder / GRAPH, folder / WEIGHTS)
        _remove(folder)
        return None

    def nbytes_of(self, entry: str) -> int:
        """0 if it is not here."""
        return sum(stamp.nbytes for stamp in self._stamps(self.folder / entry) or ())

    def make(self, digest: str, exact: bool, write: Callable[[Prepared], None]) -> Prepared:
        """Has `write` fill a new folder, hashes what it wrote, and takes it in. Whatever `write`
        raises, and `OSError` when the disk is full, leaves nothing behind."""
        folder = self.folder / self.entry(digest, exact)
        fresh = folder.with_name(folder.name + _UNFINISHED)
        _remove(fresh)
        fresh.mkdir(parents=True)
        try:
            write(Prepared(fresh / GRAPH, fresh / WEIGHTS))
            self._record(fresh)
            _remove(folder)
            fresh.replace(folder)
        except BaseException:
            _remove(fresh)
            raise
        self._made[folder.name] = self.nbytes_of(folder.name)
        return Prepared(folder / GRAPH, folder / WEIGHTS)

    def made_since(self) -> dict[str, int]:
        """Bytes by entry of what was made since this was last asked."""
        made, self._made = self._made, {}
        return made

    def drop(self, digest: str, exact: bool) -> None:
        self.remove((self.entry(digest, exact),))

    def verify_oldest(self, age_s: float) -> str | None:
        """Hash the entry that was hashed longest ago, if that is `age_s` or more; its name if it
        is not what was written, after removing it."""
        now = time.time()
        times = {file: file.stat().st_mtime for file in self.folder.glob(f"*/{RECORD}")}
        # From a time that is yet to come: a clock was wrong.
        records = {file: at if at <= now else 0.0 for file, at in times.items()}
        oldest = min(records, key=lambda file: records[file], default=None)
        if oldest is None or now - records[oldest] < age_s:
            return None
        folder = oldest.parent
        stamps = self._stamps(folder)
        if stamps is not None and all(_is_as_written(folder / s.name, s) for s in stamps):
            oldest.touch()
            return None
        _remove(folder)
        return folder.name

    def remove(self, digests: Collection[str]) -> None:
        """Entries by their own names, and all that was derived from segments of those names."""
        for name in digests:
            owner, _, variant = name.partition(".")
            for exact in (True, False):
                entry = self.entry(owner, exact)
                if not variant or entry == name:
                    _remove(self.folder / entry)

    def _record(self, folder: Path) -> None:
        stamps = [asdict(_stamp(file)) for file in sorted(folder.iterdir())]
        record = {"made_for": self._made_for(), "files": stamps}
        (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")

    def _stamps(self, folder: Path) -> list[Stamp] | None:
        """What the record says; None if there is none that counts here."""
        try:
            file = folder / RECORD
            if file.stat().st_size > LARGEST_RECORD_NBYTES:
                return None
            record: dict[str, Any] = json.loads(file.read_bytes())
            stamps = [Stamp(**fields) for fields in record["files"]]
            known = {stamp.name for stamp in stamps} <= {GRAPH, WEIGHTS}
            return stamps if known and record["made_for"] == self._made_for() else None
        except (OSError, ValueError, TypeError, KeyError):
            return None


def _stamp(file: Path) -> Stamp:
    with file.open("rb") as opened:
        digest = hashlib.sha256()
        while chunk := opened.read(CHUNK_NBYTES):
            digest.update(chunk)
        status = os.fstat(opened.fileno())
    return Stamp(file.name, digest.hexdigest(), status.st_size, status.st_mtime_ns, status.st_ino)


def _vouched(file: Path, stamp: Stamp) -> bool:
    try:
        status = file.lstat()
        same = (status.st_size, status.st_mtime_ns, status.st_ino)
        unchanged = same == (stamp.nbytes, stamp.mtime_ns, stamp.inode)
    except OSError:
        return False
    return unchanged or _is_as_written(file, stamp)


def _is_as_written(file: Path, stamp: Stamp) -> bool:
    try:
        return _stamp(file).sha256 == stamp.sha256
    except OSError:
        return False


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
