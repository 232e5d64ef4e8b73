"""What every place that keeps blobs does: in memory, in a folder, and through HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from model_store.blobs import CHUNK_NBYTES, BlobStore, FolderBlobs
from model_store.memory import MemoryBlobs
from model_store.remote import RemoteStore
from model_store.server import StoreServer
from wire.errors import BlobCorrupt, BlobMissing, Malformed, TooLarge
from wire.ids import digest_of
from wire.manifest import BlobRef
from wire.topics import Role

LIMIT_NBYTES = 4 * CHUNK_NBYTES
ABSENT = digest_of(b"never stored")


def _orchestrator_only(user: str, secret: str) -> Role | None:
    return "orchestrator" if (user, secret) == ("orchestrator", "s") else None


@pytest.fixture(scope="module", params=["memory", "folder", "http"])
def make(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], BlobStore]]:
    """The backend; one for all tests, which use content of their own."""
    folder = tmp_path_factory.mktemp("store")
    if request.param == "memory":
        memory = MemoryBlobs(LIMIT_NBYTES)
        yield lambda: memory
    elif request.param == "folder":
        yield lambda: FolderBlobs(folder, LIMIT_NBYTES)
    else:
        server = StoreServer(folder, authorise=_orchestrator_only)
        server.blobs.max_blob_nbytes = LIMIT_NBYTES
        with server, RemoteStore(server.base, "orchestrator", "s") as remote:
            yield lambda: remote.blobs


@pytest.fixture
def blobs(make: Callable[[], BlobStore]) -> BlobStore:
    return make()


def test_what_is_put_is_read(blobs: BlobStore):
    data = b"put and read"
    assert blobs.put([data[:3], b"", data[3:]]) == BlobRef(digest_of(data), len(data))
    assert b"".join(blobs.read(digest_of(data))) == data
    assert blobs.size(digest_of(data)) == len(data)
    assert digest_of(data) in blobs.digests()


def test_an_empty_blob_is_a_blob(blobs: BlobStore):
    stored = blobs.put([])
    assert stored == BlobRef(digest_of(b""), 0)
    assert blobs.size(stored.digest) == 0
    assert list(blobs.read(stored.digest)) == []


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.binary(max_size=300), st.integers(0, 320), st.none() | st.integers(0, 320))
def test_any_range_is_the_slice(blobs: BlobStore, data: bytes, start: int, stop: int | None):
    digest = blobs.put([data], digest_of(data)).digest
    assert b"".join(blobs.read(digest, start, stop)) == data[start:stop]


def test_a_blob_of_several_chunks_comes_back_in_pieces(blobs: BlobStore):
    data = bytes(range(256)) * (3 * CHUNK_NBYTES // 256) + b"tail"
    digest = blobs.put([data]).digest
    pieces = list(blobs.read(digest))
    assert len(pieces) >= 3
    assert max(map(len, pieces)) <= CHUNK_NBYTES
    assert b"".join(pieces) == data


def test_bytes_of_another_digest_are_refused_and_not_kept(blobs: BlobStore):
    data = b"not what was announced"
    with pytest.raises(BlobCorrupt):
        blobs.put([data], ABSENT)
    assert blobs.size(ABSENT) is None
    assert blobs.size(digest_of(data)) is None


def test_an_upload_that_breaks_off_leaves_nothing(blobs: BlobStore):
    before = blobs.digests()

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise RuntimeError("the sender died")

    with pytest.raises(RuntimeError, match="the sender died"):
        blobs.put(broken(), digest_of(b"half and half"))
    assert blobs.digests() == before


def test_putting_twice_is_once(blobs: BlobStore):
    assert blobs.put([b"twice"]) == blobs.put([b"tw", b"ice"])
    assert blobs.digests().count(digest_of(b"twice")) == 1


def test_many_may_put_the_same_at_once(blobs: BlobStore):
    data = b"raced for" * 1000
    with ThreadPoolExecutor(8) as pool:
        stored = list(pool.map(lambda _: blobs.put([data]), range(8)))
    assert set(stored) == {BlobRef(digest_of(data), len(data))}
    assert blobs.verify(digest_of(data)).nbytes == len(data)


def test_what_is_deleted_is_gone(blobs: BlobStore):
    digest = blobs.put([b"short-lived"]).digest
    assert blobs.delete(digest)
    assert not blobs.delete(digest)
    assert blobs.size(digest) is None
    assert digest not in blobs.digests()


def test_what_was_never_stored_is_missing(blobs: BlobStore):
    assert blobs.size(ABSENT) is None
    with pytest.raises(BlobMissing):
        blobs.read(ABSENT)
    with pytest.raises(BlobMissing):
        blobs.verify(ABSENT)


@pytest.mark.parametrize("name", ["../secret", "ABC", "", "a" * 63, "%2e%2e", "G" * 64])
def test_what_is_no_digest_is_refused(blobs: BlobStore, name: str):
    with pytest.raises(Malformed):
        blobs.size(name)
    with pytest.raises(Malformed):
        blobs.read(name)
    with pytest.raises(Malformed):
        blobs.delete(name)
    with pytest.raises(Malformed):
        blobs.put([b"x"], name)


def test_a_blob_over_the_limit_is_refused_and_not_kept(blobs: BlobStore):
    chunk = b"0" * CHUNK_NBYTES
    digest = digest_of(chunk * 5)
    with pytest.raises(TooLarge):
        blobs.put((chunk for _ in range(5)), digest)
    assert blobs.size(digest) is None


def test_verifying_says_what_it_found(blobs: BlobStore):
    assert blobs.verify(blobs.put([b"sound"]).digest) == BlobRef(digest_of(b"sound"), 5)


def test_folders_of_two_processes_show_the_same(tmp_path: Path):
    one, two = FolderBlobs(tmp_path), FolderBlobs(tmp_path)
    assert two.size(one.put([b"shared"]).digest) == 6
