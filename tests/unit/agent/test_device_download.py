"""Fetching over HTTP from stores that behave, and from those that do not."""

from __future__ import annotations

import base64
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bus.link import Link
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.fetch import Fetcher
from edge_agent.adapters.store.unpacking_pace import UnpackingPace
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
from wire.packed import (
    BLOCK_NBYTES,
    CONTENT_TYPE,
    LENGTH_HEADER,
    UNKNOWN_NBYTES_PER_S,
    accepted_link,
    pack,
)

DATA = bytes(range(256)) * 2000
BLOB = BlobRef(digest_of(DATA), len(DATA))
LIMIT_S = 20.0


class Store:
    """One blob over HTTP. `answer` may replace how a request is answered."""

    def __init__(self) -> None:
        self.data = DATA
        self.answer: Callable[[Any], None] | None = None
        self.ranges: list[str | None] = []
        self.logins: list[str | None] = []
        self.accepts: list[str] = []
        self.callers: list[tuple[str, int]] = []
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                store.ranges.append(self.headers.get("Range"))
                store.callers.append(self.client_address)
                store.accepts.append(self.headers.get("Accept") or "")
                store.logins.append(self.headers.get("Authorization"))
                (store.answer or store.behave)(self)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # callers that leave early are the point
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def base(self) -> str:
        return f"http://:{self.server.server_address[1]}"

    def behave(self, request: Any) -> None:
        start = int((request.headers.get("Range") or "bytes=0-")[6:-1])
        request.send_response(206 if start else 200)
        if start:
            last = len(self.data) - 1
            request.send_header("Content-Range", f"bytes {start}-{last}/{len(self.data)}")
        request.send_header("Content-Length", str(len(self.data) - start))
        request.end_headers()
        request.wfile.write(self.data[start:])

    def whole(self, request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(self.data)))
        request.end_headers()
        request.wfile.write(self.data)

    def packed(self, request: Any, blocks: bytes | None = None) -> None:
        """From the asked byte on, as a store that packs."""
        start = int((request.headers.get("Range") or "bytes=0-")[6:-1])
        request.send_response(206 if start else 200)
        if start:
            last = len(self.data) - 1
            request.send_header("Content-Range", f"bytes {start}-{last}/{len(self.data)}")
        request.send_header("Content-Type", CONTENT_TYPE)
        request.send_header(LENGTH_HEADER, str(len(self.data)))
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for block in pack([self.data[start:]], 6e6) if blocks is None else [blocks]:
            request.wfile.write(b"%x\r\n%s\r\n" % (len(block), block))
        request.wfile.write(b"0\r\n\r\n")

    def half(self, request: Any) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(self.data)))
        request.end_headers()
        request.wfile.write(self.data[: len(self.data) // 2])
        request.close_connection = True

    def status(self, code: int) -> Callable[[Any], None]:
        def answer(request: Any) -> None:
            request.send_response(code)
            request.send_header("Content-Length", "0")
            request.end_headers()

        return answer


class Listener:
    def __init__(self) -> None:
        self.answers: queue.Queue[tuple[str, Any, bool]] = queue.Queue()
        self.progress: list[int] = []

    def blob_progressed(self, digest: str, nbytes: int) -> None:
        self.progress.append(nbytes)

    def blob_fetched(self, digest: str, nbytes: int, fetch_s: float) -> None:
        self.answers.put((digest, nbytes, False))

    def blob_failed(self, digest: str, error: CrowdpipeError, retryable: bool) -> None:
        self.answers.put((digest, error, retryable))


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.server.shutdown()
    store.server.server_close()


class Fetching:
    def __init__(self, folder: Path) -> None:
        self.cache = BlobCache(folder / "blobs")
        self.listener = Listener()
        self.link = Link()
        self.fetcher = Fetcher(
            self.cache, self.link, self.listener, lambda: "127.0.0.1", "phone", "sesame"
        )

    def fetch(self, base: str, blob: BlobRef = BLOB) -> tuple[str, Any, bool]:
        self.fetcher.fetch(blob, base)
        return self.listener.answers.get(timeout=LIMIT_S)

    def part(self, data: bytes) -> None:
        self.cache.part_path(BLOB.digest).write_bytes(data)


@pytest.fixture
def fetching(tmp_path: Path) -> Iterator[Fetching]:
    fetching = Fetching(tmp_path)
    yield fetching
    fetching.fetcher.close()


def test_a_blob_is_fetched_with_our_login_from_the_brokers_host(store: Store, fetching: Fetching):
    assert fetching.fetch(store.base) == (BLOB.digest, len(DATA), False)
    assert fetching.cache.check(BLOB.digest) == len(DATA)
    assert not fetching.cache.part_path(BLOB.digest).exists()
    assert store.logins == ["Basic " + base64.b64encode(b"phone:sesame").decode()]
    assert fetching.link.nbytes_per_s is not None


def test_a_part_is_resumed(store: Store, fetching: Fetching):
    fetching.part(DATA[:1000])
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert store.ranges == ["bytes=1000-"]


def test_a_store_without_ranges_sends_it_all_again(store: Store, fetching: Fetching):
    fetching.part(DATA[:1000])
    store.answer = store.whole
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert fetching.cache.verify(BLOB.digest) == len(DATA)


def test_a_complete_part_needs_no_request(store: Store, fetching: Fetching):
    fetching.part(DATA)
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert store.ranges == []


def test_a_rotten_part_is_thrown_away_and_fetched_anew(store: Store, fetching: Fetching):
    fetching.part(b"!" + DATA[1:1000])
    assert fetching.fetch(store.base)[1] == len(DATA)
    assert store.ranges == ["bytes=1000-", None]


def test_an_overlong_part_is_thrown_away_and_fetched_anew(store: Store, fetching: Fetching):
    fetching.part(DATA + b"more")
    assert fetching.fetch(store.base)[1] == len(DATA)


def test_an_altered_blob_is_refused_and_leaves_nothing(store: Store, fetching: Fetching):
    store.data = DATA[:-1] + b"!"
    _, error, retryable = fetching.fetch(store.base)
    assert isinstance(error, BlobCorrupt)
    assert not retryable
    assert list(fetching.cache.folder.glob("*")) == []


@pytest.mark.parametrize("data", [DATA + b"!", DATA[:-1]])
def test_a_blob_of_another_length_is_refused_before_it_is_written(
    store: Store, fetching: Fetching, data: bytes
):
    store.data = data
    _, error, _ = fetching.fetch(store.base)
    assert isinstance(error, BlobCorrupt)
    assert "announces" in str(error)


def test_a_broken_transfer_keeps_what_came_for_the_next_try(store: Store, fetching: Fetching):
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
    store: Store, fetching: Fetching, code: int, kind: type[CrowdpipeError], retryable: bool
):
    store.answer = store.status(code)
    _, error, may_retry = fetching.fetch(store.base)
    assert isinstance(error, kind)
    assert may_retry is retryable


def test_a_store_that_says_its_blob_is_damaged_is_believed(store: Store, fetching: Fetching):
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


def test_a_cancelled_fetch_says_so_and_keeps_its_part(store: Store, fetching: Fetching):
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


def test_many_blobs_go_over_one_connection(store: Store, fetching: Fetching):
    for _ in range(3):
        assert fetching.fetch(store.base)[1] == len(DATA)
        fetching.cache.remove((BLOB.digest,))
    assert len(set(store.callers)) == 1


def test_a_connection_that_the_store_closed_meanwhile_is_no_failure(
    store: Store, fetching: Fetching
):
    def once(request: Any) -> None:
        store.whole(request)
        request.close_connection = True

    store.answer = once
    for _ in range(2):
        assert fetching.fetch(store.base)[1] == len(DATA)
        fetching.cache.remove((BLOB.digest,))
    assert len(set(store.callers)) == 2


def test_a_packed_blob_is_unpacked_as_it_comes_and_resumed(store: Store, fetching: Fetching):
    store.answer = store.packed
    fetching.part(DATA[:100_001])
    assert fetching.fetch(store.base) == (BLOB.digest, BLOB.nbytes, False)
    assert store.ranges == ["bytes=100001-"]
    assert fetching.cache.path(BLOB.digest).read_bytes() == DATA


def test_packed_blobs_go_over_one_connection(store: Store, fetching: Fetching):
    store.answer = store.packed
    for number in range(3):
        store.data = bytes([number]) * 300_000
        blob = BlobRef(digest_of(store.data), len(store.data))
        assert fetching.fetch(store.base, blob) == (blob.digest, blob.nbytes, False)
    assert len(set(store.callers)) == 1


def test_a_link_is_measured_by_what_came_over_it(store: Store, fetching: Fetching):
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
    store: Store, fetching: Fetching, more: bytes
):
    blocks = b"".join(pack([DATA], 6e6))
    store.answer = lambda request: store.packed(
        request, b"\xff" * 100 if not more else blocks + more
    )
    _, error, retryable = fetching.fetch(store.base)
    assert isinstance(error, BlobCorrupt)
    assert not retryable
    assert not fetching.cache.part_path(BLOB.digest).exists()


def test_blocks_that_end_early_keep_what_came_for_the_next_try(store: Store, fetching: Fetching):
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
    store: Store, fetching: Fetching
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
