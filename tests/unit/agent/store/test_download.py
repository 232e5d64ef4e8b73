"""Fetching over HTTP from stores that behave, and from those that do not."""

from __future__ import annotations

import base64
import contextlib
import threading
from typing import Any

import pytest

from tests.support.blob_store import BLOB, DATA, LIMIT_S, BlobStore, Fetching
from wire.errors import (
    BlobCorrupt,
    BlobMissing,
    CrowdpipeError,
    Refused,
    RunCancelled,
    StoreUnreachable,
)
from wire.ids import digest_of
from wire.manifest import BlobRef


def test_a_blob_is_fetched_with_our_login_from_the_brokers_host(
    store: BlobStore, fetching: Fetching
):
    assert fetching.fetch(store.base) == (BLOB.digest, len(DATA), False)
    assert fetching.cache.check(BLOB.digest) == len(DATA)
    assert not fetching.cache.part_path(BLOB.digest).exists()
    assert store.logins == ["Basic " + base64.b64encode(b"phone:sesame").decode()]
    assert fetching.link.nbytes_per_s is not None


def test_a_part_is_resumed(store: BlobStore, fetching: Fetching):
    fetching.part(DATA[:1000])
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert store.ranges == ["bytes=1000-"]


def test_a_store_without_ranges_sends_it_all_again(store: BlobStore, fetching: Fetching):
    fetching.part(DATA[:1000])
    store.answer = store.whole
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert fetching.cache.verify(BLOB.digest) == len(DATA)


def test_a_complete_part_needs_no_request(store: BlobStore, fetching: Fetching):
    fetching.part(DATA)
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert store.ranges == []


def test_a_rotten_part_is_thrown_away_and_fetched_anew(store: BlobStore, fetching: Fetching):
    fetching.part(b"!" + DATA[1:1000])
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert store.ranges == ["bytes=1000-", None]


def test_an_overlong_part_is_thrown_away_and_fetched_anew(store: BlobStore, fetching: Fetching):
    fetching.part(DATA + b"more")
    assert fetching.fetch(store.base)[1] == len(DATA)


def test_an_altered_blob_is_refused_and_leaves_nothing(store: BlobStore, fetching: Fetching):
    store.data = DATA[:-1] + b"!"
    _, error, retryable = fetching.fetch(store.base)
    assert isinstance(error, BlobCorrupt)
    assert not retryable
    assert list(fetching.cache.folder.glob("*")) == []


@pytest.mark.parametrize("data", [DATA + b"!", DATA[:-1]])
def test_a_blob_of_another_length_is_refused_before_it_is_written(
    store: BlobStore, fetching: Fetching, data: bytes
):
    store.data = data
    _, error, _ = fetching.fetch(store.base)
    assert isinstance(error, BlobCorrupt)
    assert "announces" in str(error)


def test_a_broken_transfer_keeps_what_came_for_the_next_try(store: BlobStore, fetching: Fetching):
    store.answer = store.half
    _, error, retryable = fetching.fetch(store.base)
    assert isinstance(error, StoreUnreachable)
    assert retryable
    store.answer = None
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert store.ranges == [None, f"bytes={len(DATA) // 2}-"]


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [(404, BlobMissing, False), (401, Refused, False), (503, StoreUnreachable, True)],
)
def test_a_status_becomes_a_typed_error(
    store: BlobStore, fetching: Fetching, code: int, kind: type[CrowdpipeError], retryable: bool
):
    store.answer = store.status(code)
    _, error, may_retry = fetching.fetch(store.base)
    assert isinstance(error, kind)
    assert may_retry is retryable


def test_a_store_that_says_its_blob_is_damaged_is_believed(store: BlobStore, fetching: Fetching):
    body = b'{"kind": "blob_corrupt", "reason": "shorter than it was"}'

    def damaged(request: Any) -> None:
        request.send_response(500)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    store.answer = damaged
    _, error, may_retry = fetching.fetch(store.base)
    assert isinstance(error, BlobCorrupt)
    assert not may_retry


def test_nobody_there_is_worth_a_retry(fetching: Fetching):
    _, error, retryable = fetching.fetch("http://127.0.0.1:9")
    assert isinstance(error, StoreUnreachable)
    assert retryable


def test_a_base_that_is_no_address_is_answered_too(fetching: Fetching):
    _, error, retryable = fetching.fetch("gopher://x")
    assert error.kind == "malformed"
    assert not retryable


def test_a_cancelled_fetch_says_so_and_keeps_its_part(store: BlobStore, fetching: Fetching):
    flowing, go_on = threading.Event(), threading.Event()

    def slowly(request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(DATA)))
        request.end_headers()
        request.wfile.write(DATA[:100_000])
        flowing.set()
        assert go_on.wait(LIMIT_S)
        with contextlib.suppress(ConnectionError):  # nobody listens any more
            request.wfile.write(DATA[100_000:])

    store.answer = slowly
    fetching.fetcher.fetch(BLOB, store.base)
    assert flowing.wait(LIMIT_S)
    fetching.fetcher.cancel(BLOB.digest)
    go_on.set()
    _, error, _ = fetching.listener.answers.get(timeout=LIMIT_S)
    assert isinstance(error, RunCancelled)
    assert fetching.cache.part_path(BLOB.digest).stat().st_size >= 1


def test_an_empty_blob_needs_no_store(fetching: Fetching):
    empty = BlobRef(digest_of(b""), 0)
    assert fetching.fetch("http://127.0.0.1:9", empty)[1] == 0


def test_many_blobs_go_over_one_connection(store: BlobStore, fetching: Fetching):
    for _ in range(3):
        assert fetching.fetch(store.base)[1] == len(DATA)
        fetching.cache.remove((BLOB.digest,))
    assert len(set(store.callers)) == 1


def test_a_connection_that_the_store_closed_meanwhile_is_no_failure(
    store: BlobStore, fetching: Fetching
):
    def once(request: Any) -> None:
        store.whole(request)
        request.close_connection = True

    store.answer = once
    for _ in range(2):
        assert fetching.fetch(store.base)[1] == len(DATA)
        fetching.cache.remove((BLOB.digest,))
    assert len(set(store.callers)) == 2
