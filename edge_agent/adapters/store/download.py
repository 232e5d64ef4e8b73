"""One blob over HTTP into the cache: resumed, counted, hashed while it is written.

What is on disk already is hashed first; the rest is asked for with a Range, and on a slow link
packed (`wire.packed`), which a store may ignore. The announced length is compared before anything
is written, and never exceeded. When to try again is decided by the machine.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from bus.trust import Trust, is_no_tls
from edge_agent.adapters.store.store_address import StoreAddress
from edge_agent.adapters.store.unpacking_pace import UnpackingPace
from wire.errors import (
    BlobCorrupt,
    BlobMissing,
    CrowdpipeError,
    DiskFull,
    OperatorError,
    Refused,
    RunCancelled,
    StoreUnreachable,
)
from wire.packed import CONTENT_TYPE, LENGTH_HEADER, Unpacking
from wire.planes import Buffer

CHUNK_NBYTES = 1 << 16
TIMEOUT_S = 20.0
NO_HTTPS_THERE = (
    "what answers there does not speak HTTPS; check that `crowdpipe up` runs, and its ports"
)
REFUSAL_NBYTES = 4096  # what is read of a refusal, to learn its reason


class StoreConnection:
    """A kept-alive connection to the store, for one thread. Over https the store must prove itself
    by the authority that its address names, else by `trust`."""

    def __init__(
        self, user: str | None, secret: str | None, trust: Trust, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._headers = {"Accept-Encoding": "identity", "User-Agent": "crowdpipe-agent"}
        if user is not None:
            token = base64.b64encode(f"{user}:{secret or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {token}"
        self._trust = trust
        self._timeout_s = timeout_s
        self._address: StoreAddress | None = None
        self._link: http.client.HTTPConnection | None = None

    def get(
        self, address: StoreAddress, digest: str, offset: int, accept: str
    ) -> http.client.HTTPResponse:
        """The store's answer from byte `offset` on. Raises `StoreUnreachable` or `Untrusted`."""
        reused = self._link is not None and address == self._address
        try:
            return self._ask(address, digest, offset, accept)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if not reused:
                raise _unreachable(address, error) from None
        try:  # a store closes connections that were idle: that is no failure yet
            return self._ask(address, digest, offset, accept)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _unreachable(address, error) from None

    def _ask(
        self, address: StoreAddress, digest: str, offset: int, accept: str
    ) -> http.client.HTTPResponse:
        if self._link is None or address != self._address:
            self.close()
            self._link = self._made(address)
            self._address = address
        extra = {"Accept": accept} | ({"Range": f"bytes={offset}-"} if offset else {})
        self._link.request("GET", address.blob(digest), headers={**self._headers, **extra})
        return self._link.getresponse()

    def _made(self, address: StoreAddress) -> http.client.HTTPConnection:
        """Connected with its first request; over TLS at once, to tell why it was not."""
        if not address.tls:
            return http.client.HTTPConnection(address.host, address.port, timeout=self._timeout_s)
        trust = self._trust if address.authority is None else Trust(address.authority)
        link = http.client.HTTPSConnection(
            address.host, address.port, timeout=self._timeout_s, context=trust.context
        )
        try:
            trust.learn(address.host, address.port)
            link.connect()
        except OSError as error:
            if is_no_tls(error):
                raise StoreUnreachable(f"the store {address.shown}: {NO_HTTPS_THERE}") from None
            where = f"the store {address.shown}"
            raise trust.explained(error, where, address.host) or error from None
        return link

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = None


class Download:
    """A blob of `nbytes` bytes on its way into `part`. `measured` is told the bytes that came over
    the link, and how long they took."""

    def __init__(
        self,
        digest: str,
        nbytes: int,
        part: Path,
        progress: Callable[[int], None],
        cancelled: Callable[[], bool],
        measured: Callable[[int, float], None],
        unpacking: UnpackingPace,
    ) -> None:
        self._digest = digest
        self._nbytes = nbytes
        self._part = part
        self._progress = progress
        self._cancelled = cancelled
        self._measured = measured
        self._unpacking = unpacking

    def run(self, connection: StoreConnection, address: StoreAddress) -> None:
        """Returns when `part` holds the whole blob and its digest was checked.

        Raises `StoreUnreachable` (worth a retry, what came is kept), `BlobMissing`,
        `BlobCorrupt` (the part is gone), `Refused`, `DiskFull` or `RunCancelled`.
        """
        resumed = self._part.exists()
        try:
            self._attempt(connection, address)
        except BlobCorrupt:
            if not resumed:
                raise
            self._attempt(connection, address)  # the old part was at fault, or the store is

    def _attempt(self, connection: StoreConnection, address: StoreAddress) -> None:
        try:
            with self._part.open("a+b") as file:
                self._fill(file, connection, address)
        except BlobCorrupt:
            self._part.unlink(missing_ok=True)
            raise
        except OSError as error:
            raise _disk_error(error, self._part) from None

    def _fill(self, file: BinaryIO, connection: StoreConnection, address: StoreAddress) -> None:
        hashing = hashlib.sha256()
        offset = self._resume(file, hashing)
        while offset < self._nbytes:
            response = connection.get(address, self._digest, offset, self._unpacking.accept())
            try:
                offset = self._accept(response, file, hashing, offset, address)
                hashing, offset = self._stream(response, file, hashing, offset, address)
            except BaseException:
                connection.close()  # what is left of the answer would be read as the next one
                raise
            finally:
                response.close()
        if hashing.hexdigest() != self._digest:
            raise BlobCorrupt(
                f"the store sent other bytes than blob {self._digest[:12]}; "
                "add the model again, or check the store's disk"
            )

    def _resume(self, file: BinaryIO, hashing: hashlib._Hash) -> int:
        """Hash what is there; too much of it is no part of this blob."""
        file.seek(0)
        offset = 0
        while chunk := file.read(CHUNK_NBYTES):
            hashing.update(chunk)
            offset += len(chunk)
            self._stop_if_cancelled()
        if offset > self._nbytes:
            raise BlobCorrupt(f"the part of blob {self._digest[:12]} is longer than the blob")
        return offset

    def _accept(
        self,
        response: http.client.HTTPResponse,
        file: BinaryIO,
        hashing: hashlib._Hash,
        offset: int,
        address: StoreAddress,
    ) -> int:
        """The offset that the answer's bytes begin at, once status and length are as they must."""
        if response.status not in (200, 206):
            raise _refusal(response, self._digest, address)
        begins = offset if response.status == 206 else 0
        announced = _announced(response, begins)
        if announced is not None and announced != self._nbytes:
            raise BlobCorrupt(
                f"blob {self._digest[:12]} should have {self._nbytes} bytes, but the store "
                f"announces {announced}; add the model again"
            )
        if response.status == 206 and not _starts_at(response, offset):
            raise BlobCorrupt(f"the store answered with another range of {self._digest[:12]}")
        if begins == 0 and offset:
            file.seek(0)
            file.truncate()
        return begins

    def _stream(
        self,
        response: http.client.HTTPResponse,
        file: BinaryIO,
        hashing: hashlib._Hash,
        offset: int,
        address: StoreAddress,
    ) -> tuple[hashlib._Hash, int]:
        if offset == 0:
            hashing = hashlib.sha256()
        began_s, came = time.monotonic(), 0
        pieces = self._unpacked if _is_packed(response) else self._plain
        for piece, nbytes in pieces(response, address, self._nbytes - offset):
            offset += len(piece)
            if offset > self._nbytes:
                raise BlobCorrupt(f"the store sent more than blob {self._digest[:12]}")
            file.write(piece)
            hashing.update(piece)
            came += nbytes
            self._progress(offset)
            self._stop_if_cancelled()
        file.flush()
        self._measured(came, time.monotonic() - began_s)
        return hashing, offset

    def _plain(
        self, response: http.client.HTTPResponse, address: StoreAddress, wanted: int
    ) -> Iterator[tuple[Buffer, int]]:
        """What comes, and how many bytes that took on the way."""
        while wanted:
            chunk = self._read(response, address, wanted)
            wanted -= len(chunk)
            yield chunk, len(chunk)

    def _unpacked(
        self, response: http.client.HTTPResponse, address: StoreAddress, wanted: int
    ) -> Iterator[tuple[Buffer, int]]:
        """The same of blocks, to their end, so that the connection can be used again."""
        unpacking, came = Unpacking(), 0
        while wanted > 0:
            chunk = self._read(response, address, CHUNK_NBYTES)
            came += len(chunk)
            for block in self._unpacking.timed(unpacking, chunk):
                wanted -= len(block)
                yield block, came
                came = 0
        if not unpacking.whole or self._is_more(response):
            raise BlobCorrupt(f"the store sent more than blob {self._digest[:12]}")

    def _is_more(self, response: http.client.HTTPResponse) -> bool:
        try:
            return bool(response.read(1))
        except (OSError, http.client.HTTPException):
            return False  # all that is wanted came

    def _read(
        self, response: http.client.HTTPResponse, address: StoreAddress, wanted: int
    ) -> bytes:
        try:
            chunk = response.read1(min(CHUNK_NBYTES, wanted))
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(address, error) from None
        if not chunk:
            raise StoreUnreachable(
                f"the store {address.shown} stopped {wanted} bytes before the end of "
                f"{self._digest[:12]}; check the network, and that `crowdpipe up` runs"
            )
        return chunk

    def _stop_if_cancelled(self) -> None:
        if self._cancelled():
            raise RunCancelled(f"fetching {self._digest[:12]} was cancelled")


def _is_packed(response: http.client.HTTPResponse) -> bool:
    return response.headers.get_content_type() == CONTENT_TYPE


def _announced(response: http.client.HTTPResponse, begins: int) -> int | None:
    """Bytes of the whole blob, as far as the answer says."""
    if not _is_packed(response):
        return None if response.length is None else begins + response.length
    said = response.getheader(LENGTH_HEADER) or ""
    return int(said) if said.isdecimal() else None


def _starts_at(response: http.client.HTTPResponse, offset: int) -> bool:
    said = response.getheader("Content-Range") or ""
    return said.startswith(f"bytes {offset}-")


def _refusal(
    response: http.client.HTTPResponse, digest: str, address: StoreAddress
) -> CrowdpipeError:
    status = response.status
    if status == 404:
        return BlobMissing(
            f"the store {address.shown} has no blob {digest[:12]}; add the model again"
        )
    if status in (401, 403):
        return Refused(f"the store {address.shown} refuses our user and secret (HTTP {status})")
    if status == 416:
        return BlobCorrupt(f"the store's blob {digest[:12]} is shorter than it should be")
    if _kind_said(response) == BlobCorrupt.kind:
        return BlobCorrupt(
            f"blob {digest[:12]} is damaged in the store {address.shown}; "
            "add the model again, or check the store's disk"
        )
    return StoreUnreachable(
        f"the store {address.shown} answered HTTP {status} for {digest[:12]}; "
        "its log says why: restart `crowdpipe up` if it does not mend itself"
    )


def _kind_said(response: http.client.HTTPResponse) -> str | None:
    """The typed error's name in a refusal's body, as our own store writes it."""
    try:
        plain = json.loads(response.read(REFUSAL_NBYTES))
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    kind = plain.get("kind") if isinstance(plain, dict) else None
    return kind if isinstance(kind, str) else None


def _unreachable(address: StoreAddress, error: Exception) -> StoreUnreachable:
    said = str(error) or type(error).__name__
    return StoreUnreachable(
        f"cannot reach the store at {address.shown}: {said}; check that "
        "`crowdpipe up` runs, and that the network and firewall let this device in"
    )


def _disk_error(error: OSError, part: Path) -> OperatorError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left for blobs in {part.parent}; free some, or lower --disk")
    return DiskFull(f"cannot write to {part.parent}: {error.strerror}")
