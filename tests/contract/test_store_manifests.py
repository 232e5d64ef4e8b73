"""What every place that keeps manifests does: in a folder, and through HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from model_store.blobs import BlobStore, FolderBlobs
from model_store.manifests import MAX_MANIFEST_NBYTES, Manifests, ManifestStore
from model_store.memory import MemoryBlobs
from model_store.remote import RemoteStore
from model_store.server import StoreServer
from tests.support.manifests import manifest_about
from wire.errors import BlobMissing, InvalidName, Malformed, TooLarge, UnknownModel
from wire.ids import digest_of
from wire.manifest import BlobRef


@dataclass
class Store:
    blobs: BlobStore
    manifests: ManifestStore

    def blob(self, data: bytes) -> BlobRef:
        return self.blobs.put([data])


@pytest.fixture(params=["memory", "folder", "http"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "http":
        server = StoreServer(tmp_path, authorise=lambda *_: "orchestrator")
        with server, RemoteStore(server.base, "orchestrator", "s") as remote:
            yield Store(remote.blobs, remote.manifests)
        return
    blobs = MemoryBlobs() if request.param == "memory" else FolderBlobs(tmp_path)
    yield Store(blobs, Manifests(tmp_path, blobs))


def test_a_manifest_comes_back_byte_for_byte(store: Store):
    data = manifest_about("m", [store.blob(b"one"), store.blob(b"two")])
    store.manifests.put("m", data)
    assert store.manifests.get("m") == data
    assert store.manifests.names() == ["m"]


def test_a_manifest_that_names_a_missing_blob_is_refused(store: Store):
    data = manifest_about("m", [store.blob(b"one"), BlobRef(digest_of(b"two"), 3)])
    with pytest.raises(BlobMissing, match=digest_of(b"two")):
        store.manifests.put("m", data)
    assert store.manifests.names() == []


def test_a_manifest_that_gives_a_blob_another_length_is_refused(store: Store):
    blob = store.blob(b"one")
    with pytest.raises(BlobMissing, match="4 bytes"):
        store.manifests.put("m", manifest_about("m", [BlobRef(blob.digest, 4)]))


def test_a_refused_manifest_leaves_the_one_before(store: Store):
    data = manifest_about("m", [store.blob(b"one")])
    store.manifests.put("m", data)
    with pytest.raises(BlobMissing):
        store.manifests.put("m", manifest_about("m", [BlobRef(digest_of(b"two"), 3)]))
    assert store.manifests.get("m") == data


def test_a_manifest_under_another_name_is_refused(store: Store):
    with pytest.raises(Malformed, match="has the name"):
        store.manifests.put("n", manifest_about("m", [store.blob(b"one")]))


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[]", b'{"format": 1}'])
def test_what_is_no_manifest_is_refused(store: Store, data: bytes):
    with pytest.raises(Malformed):
        store.manifests.put("m", data)


def test_a_manifest_over_the_limit_is_refused(store: Store):
    with pytest.raises(TooLarge):
        store.manifests.put("m", b" " * (MAX_MANIFEST_NBYTES + 1))


def test_a_name_that_may_not_be_used_is_refused(store: Store):
    for name in ("..", "A", "clients", "a.json"):
        with pytest.raises(InvalidName):
            store.manifests.get(name)


def test_an_unknown_model_is_said_to_be_unknown(store: Store):
    with pytest.raises(UnknownModel):
        store.manifests.get("nothing")
    assert not store.manifests.remove("nothing")


def test_removing_collects_what_no_other_manifest_uses(store: Store):
    mine, shared, loose = store.blob(b"mine"), store.blob(b"shared"), store.blob(b"loose")
    store.manifests.put("a", manifest_about("a", [mine, shared]))
    store.manifests.put("b", manifest_about("b", [shared]))
    assert store.manifests.remove("a")
    assert store.manifests.names() == ["b"]
    assert store.blobs.size(mine.digest) is None
    assert store.blobs.size(shared.digest) == 6
    assert store.blobs.size(loose.digest) == 5
    assert store.manifests.remove("b")
    assert store.blobs.digests() == [loose.digest]


def test_sweeping_deletes_what_no_manifest_uses(tmp_path: Path):
    blobs = FolderBlobs(tmp_path)
    manifests = Manifests(tmp_path, blobs)
    used, old = blobs.put([b"used"]), blobs.put([b"old"])
    manifests.put("m", manifest_about("m", [old]))
    manifests.put("m", manifest_about("m", [used]))
    assert blobs.size(old.digest) == 3, "replacing deletes nothing that devices may be fetching"
    assert manifests.sweep() == [old.digest]
    assert blobs.digests() == [used.digest]


def test_a_manifest_damaged_on_disk_can_be_removed_and_takes_no_blob_along(tmp_path: Path):
    blobs = FolderBlobs(tmp_path)
    manifests = Manifests(tmp_path, blobs)
    blob = blobs.put([b"one"])
    manifests.put("m", manifest_about("m", [blob]))
    (manifests.folder / "m.json").write_bytes(b"{")
    assert manifests.remove("m")
    assert manifests.names() == []
    assert blobs.digests() == [blob.digest]


def test_the_version_tells_every_change_of_a_folders_manifests(tmp_path: Path):
    blobs = FolderBlobs(tmp_path)
    manifests = Manifests(tmp_path, blobs)
    versions = [manifests.version()]
    for name, data in (("m", b"one"), ("m", b"two"), ("n", b"two")):
        manifests.put(name, manifest_about(name, [blobs.put([data])]))
        versions.append(manifests.version())
    manifests.remove("n")
    versions.append(manifests.version())
    manifests.remove("m")
    assert len(set(versions)) == 4
    assert versions[2] == versions[4]
    assert manifests.version() == versions[0]
