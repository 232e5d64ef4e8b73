"""Blobs in memory: for tests, and for a system that keeps nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from model_store.blobs import CHUNK_NBYTES, MAX_BLOB_NBYTES, missing, put_through, verify_by_reading
from wire.errors import BlobCorrupt, TooLarge
from wire.ids import check_digest, digest_of
from wire.manifest import BlobRef


class MemoryBlobs:
    """Blobs in a dictionary; `nbytes` tells what they take."""

    def __init__(self, max_blob_nbytes: int = MAX_BLOB_NBYTES) -> None:
        self.max_blob_nbytes = max_blob_nbytes
        self._guard = threading.Lock()
        self._blobs: dict[str, bytes] = {}

    @property
    def nbytes(self) -> int:
        return sum(map(len, self._blobs.values()))

    def writer(self, digest: str | None = None) -> MemoryBlobWriter:
        return MemoryBlobWriter(self, digest)

    def keep(self, data: bytes) -> BlobRef:
        digest = digest_of(data)
        with self._guard:
            self._blobs[digest] = data
        return BlobRef(digest, len(data))

    def put(self, chunks: Iterable[bytes], digest: str | None = None) -> BlobRef:
        return put_through(self.writer(digest), chunks)

    def size(self, digest: str) -> int | None:
        data = self._blobs.get(check_digest(digest))
        return None if data is None else len(data)

    def read(self, digest: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        data = self._blobs.get(check_digest(digest))
        if data is None:
            raise missing(digest)
        part = memoryview(data)[start:stop]
        return (bytes(part[at : at + CHUNK_NBYTES]) for at in range(0, len(part), CHUNK_NBYTES))

    def delete(self, digest: str) -> bool:
        with self._guard:
            return self._blobs.pop(check_digest(digest), None) is not None

    def verify(self, digest: str) -> BlobRef:
        return verify_by_reading(self, digest)

    def digests(self) -> list[str]:
        with self._guard:
            return sorted(self._blobs)


class MemoryBlobWriter:
    """Gathers chunks until they are committed."""

    def __init__(self, blobs: MemoryBlobs, digest: str | None) -> None:
        self._blobs = blobs
        self._expected = None if digest is None else check_digest(digest)
        self._data = bytearray()

    def write(self, chunk: bytes) -> None:
        if len(self._data) + len(chunk) > self._blobs.max_blob_nbytes:
            raise TooLarge(f"a blob may have at most {self._blobs.max_blob_nbytes} bytes")
        self._data += chunk

    def commit(self) -> BlobRef:
        digest = digest_of(self._data)
        if self._expected not in (None, digest):
            raise BlobCorrupt(f"these bytes are {digest}, not {self._expected}; send them again")
        return self._blobs.keep(bytes(self._data))

    def abort(self) -> None:
        self._data = bytearray()
