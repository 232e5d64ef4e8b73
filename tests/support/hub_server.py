"""A server on this machine that speaks as much of the Hugging Face Hub's protocol as fetching a
model takes: what a repository holds, and its files with entity tags and ranges."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_INFO = re.compile(r"/api/models/([\w.-]+/[\w.-]+)(?:/revision/([^/]+))?")
_FILE = re.compile(r"/([\w.-]+/[\w.-]+)/resolve/([^/]+)/(.+)")


class HubServer(ThreadingHTTPServer):
    """`repositories` holds files by repository and path; `asked` lists the files that were read;
    `gated` are repositories that want a login. Stops sending a file after `cut_short` bytes,
    once, if that is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.gated: set[str] = set()
        self.asked: list[str] = []
        self.cut_short: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def hub_server() -> Iterator[HubServer]:
    server = HubServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the tests look at `asked`."""

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        info, file = _INFO.fullmatch(path), _FILE.fullmatch(path)
        found = info or file
        repository, revision = (found.group(1), found.group(2)) if found else ("", "")
        if repository in self.server.gated:
            self._error(403, "GatedRepo")
        elif repository not in self.server.repositories:
            self._error(404, "RepoNotFound")
        elif revision not in (None, "main", COMMIT):
            self._error(404, "RevisionNotFound")
        elif info:
            self._info(repository)
        elif file:
            self._file(self.server.repositories[repository].get(file.group(3)), file.group(3), body)

    def _error(self, status: int, code: str) -> None:
        self._send(status, {"X-Error-Code": code, "X-Error-Message": code}, b"{}")

    def _info(self, repository: str) -> None:
        names = [{"rfilename": name} for name in self.server.repositories[repository]]
        plain = {
            "id": repository,
            "modelId": repository,
            "sha": COMMIT,
            "private": False,
            "siblings": names,
            "tags": [],
            "downloads": 0,
            "likes": 0,
        }
        self._send(200, {"Content-Type": "application/json"}, json.dumps(plain).encode())

    def _file(self, content: bytes | None, name: str, body: bool) -> None:
        if content is None:
            self._error(404, "EntryNotFound")
            return
        headers = {
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Repo-Commit": COMMIT,
            "Accept-Ranges": "bytes",
        }
        start = self._start(len(content))
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if body:
            self.server.asked.append(name)
        self._send(206 if start else 200, headers, content[start:], body)

    def _start(self, nbytes: int) -> int:
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        return min(int(found.group(1)), nbytes) if found else 0

    def _send(
        self, status: int, headers: dict[str, str], content: bytes, body: bool = True
    ) -> None:
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not body or self.command == "HEAD":
            return
        short, self.server.cut_short = self.server.cut_short, None
        if short is not None and len(content) > short:
            self.wfile.write(content[:short])
            self.close_connection = True
        else:
            self.server.cut_short = short
            self.wfile.write(content)
