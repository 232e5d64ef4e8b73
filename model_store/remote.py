"""A store on another machine, with the interface of one in a folder.

For whoever adds models from afar. Devices do not use it: they fetch with the standard library,
resume, and check digests while writing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import httpx

from bus.trust import Trust
from model_store.blobs import CHUNK_NBYTES, missing, verify_by_reading
from wire.errors import (
    BlobCorrupt,
    BlobMissing,
    OutOfRange,
    StoreUnreachable,
    UnknownModel,
    from_kind,
)
from wire.ids import check_digest, check_name
from wire.manifest import BlobRef

CONNECT_LIMIT_S = 5.0
ASK_LIMIT_S = 20.0  # until an answer begins, and between two pieces of one
CHANGE_LIMIT_S = 70.0  # longer than the server's own limits, so that its reason arrives


class RemoteStore:
    """Blobs and manifests at `base` (`http://host:port`), as one user. Close it after use. Over
    https, the server's certificate must be signed by `authority` (a file), or one the system
    knows."""

    def __init__(self, base: str, user: str, secret: str, authority: Path | None = None) -> None:
        # The store is ours: a proxy that the environment names is not for it.
        client = httpx.Client(
            base_url=base,
            auth=(user, secret),
            timeout=_limits("GET"),
            trust_env=False,
            verify=Trust(None if authority is None else str(authority)).context
            if base.startswith("https:")
            else True,
        )
        self._http = _Http(client)
        self.blobs = RemoteBlobs(self._http)
        self.manifests = RemoteManifests(self._http)

    def close(self) -> None:
        self._http.client.close()

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Http:
    """Requests whose failures are typed errors."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self.client.request(method, path, timeout=_limits(method), **options)
        except httpx.TransportError as error:
            raise self.unreachable(error) from None
        if not response.is_success:
            raise refusal_of(response)
        return response

    def ask_or_none(self, method: str, path: str) -> httpx.Response | None:
        """None where the server says that there is no such thing."""
        try:
            return self.ask(method, path)
        except (BlobMissing, UnknownModel):
            return None

    def unreachable(self, error: Exception) -> StoreUnreachable:
        quiet = isinstance(error, httpx.TimeoutException)
        if quiet and not isinstance(error, httpx.ConnectTimeout):
            return StoreUnreachable(
                f"the model store at {self.client.base_url} takes connections and does not answer: "
                "stop what serves it (`crowdpipe up`) and start it again"
            )
        return StoreUnreachable(
            f"no model store answers at {self.client.base_url}: {error}; "
            "start it with `crowdpipe up`"
        )


def _limits(method: str) -> httpx.Timeout:
    limit_s = ASK_LIMIT_S if method == "GET" else CHANGE_LIMIT_S
    return httpx.Timeout(limit_s, connect=CONNECT_LIMIT_S)


def refusal_of(response: httpx.Response) -> Exception:
    """The typed error in a refusal's `{kind, reason}`."""
    try:
        plain = response.json()
        return from_kind(plain["kind"], plain["reason"])
    except (ValueError, KeyError, TypeError):
        return StoreUnreachable(
            f"what answers at {response.url} is no model store; check host and port"
        )


class RemoteBlobs:
    """Blobs over HTTP."""

    def __init__(self, http: _Http) -> None:
        self._http = http

    def put(self, chunks: Iterable[bytes], digest: str | None = None) -> BlobRef:
        """With `digest`, chunks are sent as they come; without, they wait in a temporary file
        until it is known."""
        if digest is None:
            with tempfile.TemporaryFile() as file:
                digest = _gather(chunks, file)
                return self._put(iter(lambda: file.read(CHUNK_NBYTES), b""), digest)
        return self._put(chunks, check_digest(digest))

    def _put(self, chunks: Iterable[bytes], digest: str) -> BlobRef:
        plain = self._http.ask("PUT", f"/blobs/{digest}", content=iter(chunks)).json()
        return BlobRef(plain["digest"], plain["nbytes"])

    def size(self, digest: str) -> int | None:
        # Not HEAD: a refusal of it has no body, and so no reason. One byte tells the length too,
        # except that of an empty blob, which has no byte to ask for.
        headers = {"Range": "bytes=0-0"}
        try:
            response = self._http.ask("GET", f"/blobs/{check_digest(digest)}", headers=headers)
        except BlobMissing:
            return None
        except OutOfRange:
            return 0
        return int(response.headers["content-range"].rpartition("/")[2])

    def read(self, digest: str, start: int = 0, stop: int | None = None) -> Iterator[bytes]:
        nbytes = self.size(digest)
        if nbytes is None:
            raise missing(digest)
        stop = nbytes if stop is None else min(stop, nbytes)
        return self._read(digest, start, stop) if start < stop else iter(())

    def _read(self, digest: str, start: int, stop: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={start}-{stop - 1}"}
        left = stop - start
        try:
            with self._http.client.stream("GET", f"/blobs/{digest}", headers=headers) as response:
                if response.status_code != 206:
                    response.read()
                    raise refusal_of(response)
                for chunk in response.iter_bytes(CHUNK_NBYTES):
                    left -= len(chunk)
                    yield chunk
        except httpx.RemoteProtocolError:
            raise BlobCorrupt(f"blob {digest} ended {left} bytes early") from None
        except httpx.TransportError as error:
            raise self._http.unreachable(error) from None

    def delete(self, digest: str) -> bool:
        return self._http.ask_or_none("DELETE", f"/blobs/{check_digest(digest)}") is not None

    def verify(self, digest: str) -> BlobRef:
        return verify_by_reading(self, digest)

    def digests(self) -> list[str]:
        found: list[str] = self._http.ask("GET", "/blobs").json()
        return found


class RemoteManifests:
    """Manifests over HTTP."""

    def __init__(self, http: _Http) -> None:
        self._http = http

    def put(self, name: str, data: bytes) -> None:
        self._http.ask("PUT", f"/manifests/{check_name(name, 'model name')}", content=data)

    def get(self, name: str) -> bytes:
        return self._http.ask("GET", f"/manifests/{check_name(name, 'model name')}").content

    def names(self) -> list[str]:
        found: list[str] = self._http.ask("GET", "/manifests").json()
        return found

    def remove(self, name: str) -> bool:
        path = f"/manifests/{check_name(name, 'model name')}"
        return self._http.ask_or_none("DELETE", path) is not None


def _gather(chunks: Iterable[bytes], file: IO[bytes]) -> str:
    seen = hashlib.sha256()
    for chunk in chunks:
        seen.update(chunk)
        file.write(chunk)
    file.seek(0, os.SEEK_SET)
    return seen.hexdigest()
