"""The store of a home, whichever way it is reached: over HTTP while it is served, else the folder.

Both have `blobs` and `manifests` with the same methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker_config.credentials import Credentials
from crowdpipe.home import authority_file, read_up
from model_store.blobs import BlobStore, FolderBlobs
from model_store.manifests import Manifests, ManifestStore, read_manifest
from model_store.remote import RemoteStore
from wire.errors import OperatorError
from wire.manifest import Manifest
from wire.topics import ORCHESTRATOR


@dataclass(frozen=True, slots=True)
class ServedStore:
    """`where` is for people; `folder` holds the blobs, by digest, whoever serves them."""

    blobs: BlobStore
    manifests: ManifestStore
    where: str
    folder: Path

    def get(self, name: str) -> Manifest:
        """The manifest; `UnknownModel` if there is none."""
        return read_manifest(name, self.manifests.get(name))


@contextmanager
def open_store(home: Path) -> Iterator[ServedStore]:
    """The home's store. Raises `StoreUnreachable` if it is said to be served and is not."""
    record = read_up(home)
    if record is None:
        blobs = FolderBlobs(home / "store")
        manifests = Manifests(home / "store", blobs)
        yield ServedStore(blobs, manifests, str(home / "store"), blobs.folder)
        return
    me = Credentials(home).get(ORCHESTRATOR)
    if me is None:
        raise OperatorError(f"the list of users in {home} is gone; start `crowdpipe up` again")
    with RemoteStore(record.store, me.name, me.secret, authority_file(home)) as remote:
        folder = FolderBlobs(home / "store").folder
        yield ServedStore(remote.blobs, remote.manifests, record.store, folder)
