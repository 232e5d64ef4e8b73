"""Fetching blobs packed: unpacked as they come, resumed, refused where they are none, and asked for
where that saves time.
"""

from __future__ import annotations

import time

import pytest

from bus.link import Link
from edge_agent.adapters.store.unpacking_pace import UnpackingPace
from tests.support.blob_store import BLOB, DATA, BlobStore, Fetching
from wire.errors import BlobCorrupt, StoreUnreachable
from wire.ids import digest_of
from wire.manifest import BlobRef
from wire.packed import BLOCK_NBYTES, UNKNOWN_NBYTES_PER_S, accepted_link, pack


def test_a_packed_blob_is_unpacked_as_it_comes_and_resumed(store: BlobStore, fetching: Fetching):
    store.answer = store.packed
    fetching.part(DATA[:100_001])
    assert fetching.fetch(store.base) == (BLOB.digest, BLOB.nbytes, False)
    assert store.ranges == ["bytes=100001-"]
    assert fetching.cache.path(BLOB.digest).read_bytes() == DATA


def test_packed_blobs_go_over_one_connection(store: BlobStore, fetching: Fetching):
    store.answer = store.packed
    for number in range(3):
        store.data = bytes([number]) * 300_000
        blob = BlobRef(digest_of(store.data), len(store.data))
        assert fetching.fetch(store.base, blob) == (blob.digest, blob.nbytes, False)
    assert len(set(store.callers)) == 1


def test_a_link_is_measured_by_what_came_over_it(store: BlobStore, fetching: Fetching):
    store.data = bytes(20 << 20)
    blob = BlobRef(digest_of(store.data), len(store.data))
    store.answer = store.packed
    began_s = time.monotonic()
    assert fetching.fetch(store.base, blob)[1] == blob.nbytes
    took_s = time.monotonic() - began_s
    came = sum(map(len, pack([store.data], 6e6)))
    assert came < blob.nbytes / 4
    assert came / took_s <= (fetching.link.down_nbytes_per_s or 0.0) < blob.nbytes / took_s


@pytest.mark.parametrize("more", [b"", b"x", b"more of it" * 20_000])
def test_blocks_that_are_none_are_refused_and_leave_nothing(
    store: BlobStore, fetching: Fetching, more: bytes
):
    blocks = b"".join(pack([DATA], 6e6))
    store.answer = lambda request: store.packed(
        request, b"\xff" * 100 if not more else blocks + more
    )
    _, error, retryable = fetching.fetch(store.base)
    assert isinstance(error, BlobCorrupt)
    assert not retryable
    assert not fetching.cache.part_path(BLOB.digest).exists()


def test_blocks_that_end_early_keep_what_came_for_the_next_try(
    store: BlobStore, fetching: Fetching
):
    blocks = list(pack([DATA], 6e6))
    store.answer = lambda request: store.packed(request, blocks[0] + blocks[1][:100])
    _, error, retryable = fetching.fetch(store.base)
    assert isinstance(error, StoreUnreachable)
    assert retryable
    assert fetching.cache.part_path(BLOB.digest).stat().st_size == BLOCK_NBYTES
    store.answer = store.packed
    assert fetching.fetch(store.base) == (BLOB.digest, BLOB.nbytes, False)
    assert store.ranges[-1] == f"bytes={BLOCK_NBYTES}-"


def test_packed_is_asked_for_on_slow_links_and_on_those_that_nobody_measured(
    store: BlobStore, fetching: Fetching
):
    for rate in (None, 3e6, 3e8):
        if rate is not None:
            fetching.link = fetching.fetcher._link = Link()
            fetching.link.received(1 << 20, (1 << 20) / rate)
            fetching.fetcher._unpacking = UnpackingPace(fetching.link)
        store.data = str(rate).encode() * 1000
        fetching.fetch(store.base, BlobRef(digest_of(store.data), len(store.data)))
    links = [accepted_link(accept) for accept in store.accepts]
    assert links == [UNKNOWN_NBYTES_PER_S, pytest.approx(3e6, rel=0.01), None]


def test_a_device_that_unpacks_slowly_asks_for_it_only_on_slower_links():
    link = Link()
    link.received(1 << 20, (1 << 20) / 10e6)
    pace = UnpackingPace(link)
    assert accepted_link(pace.accept()) is not None
    for _ in range(100):
        pace._took(1 << 17, (1 << 17) / 20e6)
    assert accepted_link(pace.accept()) is None
    assert any(accepted_link(pace.accept()) is not None for _ in range(50))
