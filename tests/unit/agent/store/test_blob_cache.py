"""Blobs on disk: nothing is used whose digest was not checked, and nothing is hashed twice."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from edge_agent.adapters.store import blob_index
from edge_agent.adapters.store import cache as cache_module
from edge_agent.adapters.store.agent_folder import AgentFolder, FolderTaken
from edge_agent.adapters.store.cache import INDEX_NAME, BlobCache
from wire.errors import BlobCorrupt, BlobMissing
from wire.ids import digest_of

ONE, TWO = b"one" * 1000, b"two" * 1000


@pytest.fixture
def cache(tmp_path: Path) -> BlobCache:
    return BlobCache(tmp_path / "blobs")


def put(cache: BlobCache, data: bytes) -> str:
    digest = digest_of(data)
    cache.part_path(digest).write_bytes(data)
    cache.admit(digest)
    return digest


def count_hashing(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    hashed: list[Path] = []
    real = cache_module._hash_file

    def counted(path: Path) -> str:
        hashed.append(path)
        return real(path)

    monkeypatch.setattr(cache_module, "_hash_file", counted)
    return hashed


def test_a_restart_finds_what_was_there_without_hashing_it(
    cache: BlobCache, monkeypatch: pytest.MonkeyPatch
):
    digest = put(cache, ONE)
    hashed = count_hashing(monkeypatch)
    assert BlobCache(cache.folder).scan() == {digest: len(ONE)}
    assert hashed == []


def test_a_blob_that_the_index_does_not_know_is_hashed(
    cache: BlobCache, monkeypatch: pytest.MonkeyPatch
):
    digest = digest_of(ONE)
    cache.path(digest).write_bytes(ONE)
    hashed = count_hashing(monkeypatch)
    assert cache.scan() == {digest: len(ONE)}
    assert hashed == [cache.path(digest)]


def test_a_broken_index_costs_only_hashing(cache: BlobCache):
    digest = put(cache, ONE)
    (cache.folder / INDEX_NAME).write_text('{"' + digest + '": [1, 2')
    assert BlobCache(cache.folder).scan() == {digest: len(ONE)}


def written_nbytes() -> int:
    """By this process so far, to whatever file."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["wchar"])


def written_for(cache: BlobCache, blobs: int) -> int:
    """What the cache writes to take in so many."""
    digests = []
    for index in range(blobs):
        data = f"{cache.folder} {index}".encode()
        digests.append(digest_of(data))
        cache.part_path(digests[-1]).write_bytes(data)
    before = written_nbytes()
    for digest in digests:
        cache.admit(digest)
    return written_nbytes() - before


def test_what_is_written_for_each_blob_does_not_grow_with_their_number(tmp_path: Path):
    few = written_for(BlobCache(tmp_path / "few"), 100) / 100
    many = written_for(BlobCache(tmp_path / "many"), 1000) / 1000
    assert few < 300
    assert many < 2 * few, "written anew each time it has grown to several times its size"


def test_a_log_that_says_the_same_over_and_over_stays_small(cache: BlobCache):
    digest = put(cache, ONE)
    for _ in range(3000):
        cache.touch((digest,))
    assert (cache.folder / INDEX_NAME).stat().st_size < 100_000
    assert BlobCache(cache.folder).scan() == {digest: len(ONE)}


def test_a_start_leaves_a_line_for_each_blob_and_no_more(cache: BlobCache):
    one, two = put(cache, ONE), put(cache, TWO)
    cache.touch((one, two))
    cache.remove((one,))
    fresh = BlobCache(cache.folder)
    fresh.scan()
    assert len((cache.folder / INDEX_NAME).read_text().splitlines()) == 1


def test_a_torn_last_line_costs_hashing_one_blob(cache: BlobCache, monkeypatch: pytest.MonkeyPatch):
    one, two = put(cache, ONE), put(cache, TWO)
    index = cache.folder / INDEX_NAME
    os.truncate(index, index.stat().st_size - 10)
    hashed = count_hashing(monkeypatch)
    again = BlobCache(cache.folder)
    assert again.scan() == {one: len(ONE), two: len(TWO)}
    assert hashed == [cache.path(two)]
    assert BlobCache(cache.folder).scan() == {one: len(ONE), two: len(TWO)}
    assert hashed == [cache.path(two)], "and only once"


def test_what_is_written_behind_a_torn_line_counts(
    cache: BlobCache, monkeypatch: pytest.MonkeyPatch
):
    one = put(cache, ONE)
    with (cache.folder / INDEX_NAME).open("ab") as index:
        index.write(b'{"digest": "')
    two = put(BlobCache(cache.folder), TWO)
    hashed = count_hashing(monkeypatch)
    assert set(BlobCache(cache.folder).scan()) == {one, two}
    assert hashed == []


def test_of_an_index_beyond_its_bound_nothing_is_read(
    cache: BlobCache, monkeypatch: pytest.MonkeyPatch
):
    digest = put(cache, ONE)
    monkeypatch.setattr(blob_index, "LARGEST_NBYTES", 100)
    hashed = count_hashing(monkeypatch)
    assert BlobCache(cache.folder).scan() == {digest: len(ONE)}
    assert hashed == [cache.path(digest)]


def test_an_altered_blob_is_noticed_and_removed(cache: BlobCache):
    digest = put(cache, ONE)
    cache.path(digest).write_bytes(ONE[:-1] + b"!")
    with pytest.raises(BlobCorrupt, match="altered"):
        cache.check(digest)
    assert not cache.path(digest).exists()


def test_a_truncated_blob_is_gone_after_the_scan(cache: BlobCache):
    digest, whole = put(cache, ONE), put(cache, TWO)
    os.truncate(cache.path(digest), 100)
    assert BlobCache(cache.folder).scan() == {whole: len(TWO)}


def test_rot_that_keeps_the_files_stamp_is_found_by_verifying(cache: BlobCache):
    digest = put(cache, ONE)
    path = cache.path(digest)
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"rot")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert cache.check(digest) == len(ONE)
    with pytest.raises(BlobCorrupt):
        cache.verify(digest)


def test_a_missing_blob_is_a_typed_error(cache: BlobCache):
    with pytest.raises(BlobMissing):
        cache.check("0" * 64)


def test_the_least_recently_used_comes_first(cache: BlobCache):
    one, two = put(cache, ONE), put(cache, TWO)
    cache.touch((one,))
    assert list(BlobCache(cache.folder).scan()) == [two, one]


def test_removing_takes_parts_along(cache: BlobCache):
    digest = put(cache, ONE)
    cache.part_path(digest).write_bytes(b"part")
    cache.remove((digest, "0" * 64))
    assert [file.name for file in cache.folder.iterdir()] == [INDEX_NAME]


def test_parts_survive_a_restart_but_not_a_week(cache: BlobCache):
    fresh, old = cache.part_path("1" * 64), cache.part_path("2" * 64)
    fresh.write_bytes(b"x")
    old.write_bytes(b"x")
    week_ago = time.time() - 8 * 86400
    os.utime(old, (week_ago, week_ago))
    cache.scan()
    assert fresh.exists()
    assert not old.exists()


def test_idle_time_looks_at_what_was_verified_longest_ago(cache: BlobCache):
    one = put(cache, ONE)
    two = put(cache, TWO)
    assert cache.longest_unverified(age_s=3600) is None
    assert cache.longest_unverified(age_s=-1) == one
    cache.verify(one)
    assert cache.longest_unverified(age_s=-1) == two


def test_two_agents_cannot_share_a_folder(tmp_path: Path):
    first = AgentFolder(tmp_path / "agent")
    with pytest.raises(FolderTaken, match="--cache"):
        AgentFolder(tmp_path / "agent")
    first.close()
    AgentFolder(tmp_path / "agent").close()


def test_what_was_verified_by_a_clock_that_was_wrong_is_verified_again(
    cache: BlobCache, monkeypatch: pytest.MonkeyPatch
):
    right = time.time
    put(cache, ONE)
    monkeypatch.setattr(time, "time", lambda: right() + 5 * 3600)
    two = put(cache, TWO)
    monkeypatch.setattr(time, "time", right)
    assert cache.longest_unverified(age_s=3600) == two
