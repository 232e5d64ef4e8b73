"""Manifests by name: each is kept as the bytes it came in, once every blob it names is here.

Reads of a manifest only its name and its blobs. Removing one collects the blobs that no other
uses; replacing one collects nothing, since devices may still be fetching what it named: `sweep`
does, when the operator knows that nobody is.
"""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from model_store.blobs import BlobStore, write_synced
from wire.errors import BlobMissing, Malformed, UnknownModel
from wire.ids import check_name, digest_of
from wire.manifest import BlobRef, Manifest
from wire.record import decode
from wire.unwritable import writing_in

MAX_MANIFEST_NBYTES = 32 << 20


class ManifestStore(Protocol):
    """A place that keeps manifests."""

    def put(self, name: str, data: bytes) -> None:
        """Keep `data` as manifest `name`; `BlobMissing` if it names a blob that is not here or
        has another length, `Malformed` if it is no manifest of that name."""

    def get(self, name: str) -> bytes:
        """The manifest as it came in; `UnknownModel` if there is none."""

    def names(self) -> list[str]:
        """All names, sorted."""

    def remove(self, name: str) -> bool:
        """Forget it and the blobs that no other uses; False if there was none."""


def read_manifest(name: str, data: bytes) -> Manifest:
    """`data` as a manifest that bears `name`; `Malformed` or `TooLarge` otherwise."""
    manifest: Manifest = decode(Manifest, data, limit=MAX_MANIFEST_NBYTES)
    if manifest.name != name:
        raise Malformed(f"manifest {name!r} has the name {manifest.name!r}")
    return manifest


def unknown(name: str) -> UnknownModel:
    return UnknownModel(
        f"the store has no model {name!r}; `crowdpipe model list` shows what it has"
    )


class Manifests:
    """Manifests in `<folder>/manifests`, about blobs in `blobs`."""

    def __init__(self, folder: Path, blobs: BlobStore) -> None:
        self.folder = folder / "manifests"
        with writing_in(folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._blobs = blobs
        self._guard = threading.Lock()

    def put(self, name: str, data: bytes) -> None:
        manifest = read_manifest(check_name(name, "model name"), data)
        with self._alone():
            for blob in manifest.blobs:
                self._require(name, blob)
            with writing_in(self.folder):
                write_synced(self._path(name), data)

    def _require(self, name: str, blob: BlobRef) -> None:
        nbytes = self._blobs.size(blob.digest)
        if nbytes is None:
            raise BlobMissing(f"manifest {name!r} names blob {blob.digest}, which is not stored")
        if nbytes != blob.nbytes:
            raise BlobMissing(
                f"manifest {name!r} says that blob {blob.digest} has {blob.nbytes} bytes; "
                f"the stored one has {nbytes}"
            )

    def get(self, name: str) -> bytes:
        try:
            return self._path(check_name(name, "model name")).read_bytes()
        except FileNotFoundError:
            raise unknown(name) from None

    def names(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("[!.]*.json"))

    def version(self) -> str:
        """Another whenever a manifest came, went or was written anew. Reads none of them: who
        watches the store asks each second, and a manifest may have megabytes."""
        return digest_of("".join(self._states()).encode())

    def _states(self) -> Iterator[str]:
        for name in self.names():
            with suppress(FileNotFoundError):  # removed meanwhile
                file = self._path(name).stat()
                yield f"{name} {file.st_ino} {file.st_mtime_ns} {file.st_size}\n"

    def remove(self, name: str) -> bool:
        check_name(name, "model name")
        with self._alone():
            try:
                used = self._used_by(name)
            except UnknownModel:
                return False
            except Malformed:  # damaged on disk: its blobs are left to `sweep`
                used = set()
            # The name first: a crash here leaves blobs too many, never a manifest with too few.
            self._path(name).unlink()
            for digest in used - self._used():
                self._blobs.delete(digest)
        return True

    def sweep(self) -> list[str]:
        """Delete every blob that no manifest names, and say which. An upload that is under way
        loses its blobs; its manifest will then be refused, and it is to be repeated."""
        with self._alone():
            orphans = sorted(set(self._blobs.digests()) - self._used())
            for digest in orphans:
                self._blobs.delete(digest)
        return orphans

    def _used(self) -> set[str]:
        return set().union(*(self._used_by(name) for name in self.names()))

    def _used_by(self, name: str) -> set[str]:
        return {blob.digest for blob in read_manifest(name, self.get(name)).blobs}

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time, across processes: none may collect what another just checked."""
        with writing_in(self.folder):
            lock = (self.folder / ".lock").open("a")
        with lock, self._guard:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
