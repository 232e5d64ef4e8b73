"""Adding to a store without a trace unless it succeeds, and without replacing what nobody asked to.

What is added is not looked into; who cuts models is `models`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from crowdpipe.serving.stores import ServedStore
from model_store.blobs import BlobStore
from model_store.manifests import ManifestStore, read_manifest
from wire.errors import CrowdpipeError, UnknownModel, UserError
from wire.manifest import BlobRef, Manifest


@contextmanager
def adding(store: ServedStore, *, replacing: bool = False) -> Iterator[ServedStore]:
    """`store` for whoever adds to it: whatever goes wrong, blobs that came in through it and that
    no manifest names are deleted again. A manifest that differs from the one of its name is
    refused with `UserError` unless `replacing`; one of the same content is no replacement."""
    blobs = _NotingBlobs(store.blobs)
    manifests = store.manifests if replacing else _KeepingManifests(store.manifests)
    try:
        yield replace(store, blobs=blobs, manifests=manifests)
    except BaseException:
        with contextlib.suppress(CrowdpipeError):  # that it failed is what is to be told
            _take_back(store, blobs.new)
        raise


def _take_back(store: ServedStore, digests: set[str]) -> None:
    used = {blob.digest for name in store.manifests.names() for blob in store.get(name).blobs}
    for digest in digests - used:
        store.blobs.delete(digest)


class _Passing:
    """Everything else is as it is in what it stands before."""

    def __init__(self, behind: Any) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


class _NotingBlobs(_Passing):
    """Notes which blobs were not there before."""

    def __init__(self, behind: BlobStore) -> None:
        super().__init__(behind)
        self._before = set(behind.digests())
        self.new: set[str] = set()

    def put(self, chunks: Iterable[bytes], digest: str | None = None) -> BlobRef:
        blob: BlobRef = self._behind.put(chunks, digest)
        if blob.digest not in self._before:
            self.new.add(blob.digest)
        return blob


class _KeepingManifests(_Passing):
    """Replaces none."""

    def __init__(self, behind: ManifestStore) -> None:
        super().__init__(behind)

    def put(self, name: str, data: bytes) -> None:
        there = self._found(name)
        if there is not None and not there.serves_as(read_manifest(name, data)):
            raise UserError(
                f"there is a model {name!r} already, and this is another, or is cut or bounded "
                f"otherwise (there: {len(there.segments)} segments of {there.nbytes} bytes); "
                "choose another --name, or --replace it: its runs end with an error then"
            )
        self._behind.put(name, data)

    def _found(self, name: str) -> Manifest | None:
        try:
            return read_manifest(name, self._behind.get(name))
        except UnknownModel:
            return None
