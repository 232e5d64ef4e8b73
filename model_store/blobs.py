"""Bytes by digest: what every place that keeps blobs offers, and the one in a folder.

Content comes first and its name last: bytes go to a temporary file, are hashed on the way,
synced, and only then renamed to their digest. All blobs lie in one flat folder under their
digest, so that an ONNX graph there finds its external data. Beside it, `lengths/<digest>`
records how long the blob was, so that a damaged disk is noticed before a byte is served.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from wire.errors import BlobCorrupt, BlobMissing, TooLarge
from wire.ids import check_digest
from wire.manifest import BlobRef
from wire.unwritable import writing_in

CHUNK_NBYTES = 1 << 20
MAX_BLOB_NBYTES = 64 << 30


class BlobWriter(Protocol):
    """A blob on its way in. Until `commit` nobody sees it; `abort` forgets it."""

    def write(self, chunk: bytes) -> None:
        """Add bytes; `TooLarge` beyond the store's limit, `DiskFull` when there is no room."""

    def commit(self) -> BlobRef:
        """Keep it; `BlobCorrupt` if it is not what was announced, and then nothing is kept."""

    def abort(self) -> None:
        """Forget it. After `commit` it does nothing."""


class BlobStore(Protocol):
    """A place that keeps blobs. Digests are checked on the way in, lengths on the way out."""

    def put(self, chunks: Iterable[bytes], digest: str | None = None) -> BlobRef:
        """Store the chunks' concatenation; with `digest`, only if that is its digest."""

    def size(self, digest: str) -> int | None:
        """Bytes, or None if it is not here; `BlobCorrupt` if it lost or gained some."""

    def read(self, digest: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        """Bytes from `start` up to, not including, `stop`. Raises `BlobMissing` or
        `BlobCorrupt` at once, or `BlobCorrupt` on the way if the bytes end early."""

    def delete(self, digest: str) -> bool:
        """Forget it; False if it was not here."""

    def verify(self, digest: str) -> BlobRef:
        """Read it whole; `BlobMissing`, or `BlobCorrupt` if it is not what its name says."""

    def digests(self) -> list[str]:
        """Everything that is here, sorted."""


def missing(digest: str) -> BlobMissing:
    return BlobMissing(f"blob {digest} is not in the store; add its model again")


def put_through(writer: BlobWriter, chunks: Iterable[bytes]) -> BlobRef:
    """All chunks, then commit; whatever goes wrong, nothing half-written stays."""
    try:
        for chunk in chunks:
            writer.write(chunk)
        return writer.commit()
    finally:
        writer.abort()


def verify_by_reading(blobs: BlobStore, digest: str) -> BlobRef:
    """Hash what `blobs` reads; `BlobCorrupt` if it is another's digest."""
    seen, nbytes = hashlib.sha256(), 0
    for chunk in blobs.read(digest):
        seen.update(chunk)
        nbytes += len(chunk)
    if seen.hexdigest() != digest:
        raise BlobCorrupt(f"blob {digest} has been altered; delete it and add its model again")
    return BlobRef(digest, nbytes)


class FolderBlobs:
    """Blobs in `<folder>/blobs`; safe to use from several threads and processes."""

    def __init__(self, folder: Path, max_blob_nbytes: int = MAX_BLOB_NBYTES) -> None:
        self.folder = folder / "blobs"
        self._lengths = folder / "lengths"
        self.max_blob_nbytes = max_blob_nbytes
        with writing_in(folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lengths.mkdir(exist_ok=True)

    def path(self, digest: str) -> Path:
        return self.folder / check_digest(digest)

    def length_path(self, digest: str) -> Path:
        return self._lengths / check_digest(digest)

    def writer(self, digest: str | None = None) -> FolderBlobWriter:
        return FolderBlobWriter(self, digest)

    def put(self, chunks: Iterable[bytes], digest: str | None = None) -> BlobRef:
        return put_through(self.writer(digest), chunks)

    def size(self, digest: str) -> int | None:
        try:
            found = self.path(digest).stat().st_size
        except FileNotFoundError:
            return None
        recorded = self._recorded(digest)
        if recorded is not None and recorded != found:
            raise BlobCorrupt(
                f"blob {digest} has {found} bytes, not the {recorded} that were stored; "
                "delete it and add its model again"
            )
        if recorded is None:
            return self._record(digest)
        return found

    def _recorded(self, digest: str) -> int | None:
        try:
            text = self.length_path(digest).read_text(encoding="ascii")
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        return int(text) if text.isdecimal() else None

    def _record(self, digest: str) -> int:
        """Someone put the file here by hand, or the record is lost: trust only its digest."""
        with self.path(digest).open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise BlobCorrupt(f"file {digest} is not the blob that its name says; delete it")
            nbytes = file.tell()
        with writing_in(self._lengths):
            write_synced(self.length_path(digest), str(nbytes).encode())
        return nbytes

    def read(self, digest: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        nbytes = self.size(digest)
        if nbytes is None:
            raise missing(digest)
        stop = nbytes if stop is None else min(stop, nbytes)
        try:
            file = self.path(digest).open("rb")
        except FileNotFoundError:
            raise missing(digest) from None
        return _chunks(file, digest, start, stop)

    def delete(self, digest: str) -> bool:
        try:
            self.path(digest).unlink()
        except FileNotFoundError:
            return False
        self.length_path(digest).unlink(missing_ok=True)
        return True

    def verify(self, digest: str) -> BlobRef:
        return verify_by_reading(self, digest)

    def digests(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path.name[0] != ".")

    def forget_unfinished(self) -> int:
        """Delete what writers left behind that died; call it while nobody writes."""
        leftovers = list(self.folder.glob(".*.part"))
        for path in leftovers:
            path.unlink(missing_ok=True)
        return len(leftovers)


class FolderBlobWriter:
    """Writes to a temporary file in the same folder, so that the rename is atomic."""

    def __init__(self, blobs: FolderBlobs, digest: str | None) -> None:
        self._blobs = blobs
        self._expected = None if digest is None else check_digest(digest)
        self._seen, self._nbytes = hashlib.sha256(), 0
        self._temporary = blobs.folder / f".{secrets.token_hex(8)}.part"
        with writing_in(blobs.folder):
            self._file = self._temporary.open("xb", buffering=0)

    def write(self, chunk: bytes) -> None:
        self._nbytes += len(chunk)
        if self._nbytes > self._blobs.max_blob_nbytes:
            raise TooLarge(f"a blob may have at most {self._blobs.max_blob_nbytes} bytes")
        self._seen.update(chunk)
        rest = memoryview(chunk)
        with writing_in(self._blobs.folder):
            while rest:
                rest = rest[self._file.write(rest) :]

    def commit(self) -> BlobRef:
        digest = self._seen.hexdigest()
        if self._expected not in (None, digest):
            raise BlobCorrupt(f"these bytes are {digest}, not {self._expected}; send them again")
        with writing_in(self._blobs.folder):
            os.fsync(self._file.fileno())
            self._file.close()
            # The record before the name: a blob without one would have to be hashed again.
            write_synced(self._blobs.length_path(digest), str(self._nbytes).encode())
            self._temporary.replace(self._blobs.path(digest))
            sync_folder(self._blobs.folder)
        return BlobRef(digest, self._nbytes)

    def abort(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def _chunks(file: BinaryIO, digest: str, start: int, stop: int) -> Iterator[bytes]:
    with file:
        file.seek(start)
        left = max(0, stop - start)
        while left > 0:
            chunk = file.read(min(left, CHUNK_NBYTES))
            if not chunk:
                raise BlobCorrupt(f"blob {digest} ends {left} bytes early")
            left -= len(chunk)
            yield chunk


def write_synced(path: Path, data: bytes) -> None:
    """Replace `path` by `data`, whole or not at all, and have it on disk before returning."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """A rename is on disk only once its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
