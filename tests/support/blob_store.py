"""A store of one blob over HTTP that answers as it is told to, and a fetcher that asks it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bus.link import Link
from edge_agent.adapters.store.cache import BlobCache
from edge_agent.adapters.store.fetch import Fetcher
from wire.errors import CrowdpipeError
from wire.ids import digest_of
from wire.manifest import BlobRef
from wire.packed import CONTENT_TYPE, LENGTH_HEADER, pack

DATA = bytes(range(256)) * 2000
BLOB = BlobRef(digest_of(DATA), len(DATA))
LIMIT_S = 20.0


class BlobStore:
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

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

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

    def ended(self, error: CrowdpipeError) -> None:
        self.answers.put(("", error, False))


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
