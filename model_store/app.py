"""The store's HTTP interface.

`GET|HEAD|PUT|DELETE /blobs/{digest}`, `GET /manifests`, `GET|PUT|DELETE /manifests/{name}` and
`GET /health`. Blobs stream in both directions, never held whole; a single `Range` resumes a
download, and who accepts `wire.packed` on a slow link gets that. The list of manifests has a tag,
so that who watches it learns at little cost that nothing is new. Every error is JSON
`{kind, reason}` with the typed errors of `wire.errors`. Who may do what is decided before a byte of
the body is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from model_store.access import READERS, WRITERS, Authorise, Unauthorised, check_may, user_of
from model_store.blobs import BlobStore, BlobWriter, missing
from model_store.manifests import MAX_MANIFEST_NBYTES, Manifests
from model_store.ranges import ByteRange, parse_range
from model_store.upload import Upload
from wire import packed
from wire.errors import (
    BlobCorrupt,
    BlobMissing,
    CrowdpipeError,
    DiskFull,
    InvalidName,
    Malformed,
    OutOfRange,
    Refused,
    TimedOut,
    TooLarge,
    UnknownModel,
)
from wire.ids import digest_of
from wire.topics import Role

May = Callable[[Request, frozenset[Role], str], None]


class UploadedBlobs(BlobStore, Protocol):
    """What the app needs of a place for blobs: it also takes them piece by piece."""

    max_blob_nbytes: int

    def writer(self, digest: str | None = None) -> BlobWriter: ...


_STATUS: tuple[tuple[type[CrowdpipeError], int], ...] = (
    (Unauthorised, 401),
    (Refused, 403),
    (BlobMissing, 404),
    (UnknownModel, 404),
    (TimedOut, 408),
    (TooLarge, 413),
    (InvalidName, 422),
    (Malformed, 422),
    (BlobCorrupt, 500),
    (DiskFull, 507),
)
_STATUS_OF_PUT: dict[type[CrowdpipeError], int] = {BlobMissing: 409, BlobCorrupt: 422}
_KIND_OF_STATUS = {404: "not_found", 405: "not_allowed"}


def create_app(blobs: UploadedBlobs, manifests: Manifests, authorise: Authorise) -> FastAPI:
    """The application around one store. `authorise` says which role a user has; `shown` in a
    request's state, if there, is told whose valid secret came with it."""
    app = FastAPI(title="crowdpipe model store", docs_url=None, redoc_url=None, openapi_url=None)

    def may(request: Request, roles: frozenset[Role], what: str) -> None:
        user, role = user_of(request.headers.get("authorization"), authorise)
        shown = getattr(request.state, "shown", None)
        if shown is not None:
            shown(user)
        check_may(role, roles, what)

    _add_errors(app)
    _add_blobs(app, blobs, may)
    _add_manifests(app, manifests, may)

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(CrowdpipeError)
    async def typed(request: Request, error: CrowdpipeError) -> JSONResponse:
        return _refusal(status_of(error, request.method), error.kind, error.reason)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        kind = _KIND_OF_STATUS.get(error.status_code, "error")
        return _refusal(error.status_code, kind, f"{request.url.path}: {error.detail}")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return _refusal(500, "error", f"the store failed: {type(error).__name__}: {error}")


def status_of(error: CrowdpipeError, method: str) -> int:
    """The HTTP status of a typed error; what a PUT brought in is its sender's to mend."""
    if method == "PUT" and type(error) in _STATUS_OF_PUT:
        return _STATUS_OF_PUT[type(error)]
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def _refusal(status: int, kind: str, reason: str) -> JSONResponse:
    # A refused upload has bytes on their way that nobody will read: close, do not reuse.
    headers = {"Connection": "close"} if status in (401, 403, 408, 413, 507) else {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="crowdpipe", charset="UTF-8"'
    return JSONResponse({"kind": kind, "reason": reason}, status, headers)


def _add_blobs(app: FastAPI, blobs: UploadedBlobs, may: May) -> None:
    @app.api_route("/blobs/{digest}", methods=["GET", "HEAD"])
    def get_blob(request: Request, digest: str) -> Response:
        may(request, READERS, "read blobs")
        return _answer(request, blobs, digest)

    @app.put("/blobs/{digest}", status_code=201)
    async def put_blob(request: Request, digest: str) -> dict[str, Any]:
        async with Upload(request, blobs.max_blob_nbytes) as upload:
            await run_in_threadpool(may, request, WRITERS, "store blobs")
            upload.check_announced()
            writer = await run_in_threadpool(blobs.writer, digest)
            try:
                async for piece in upload.pieces():
                    await run_in_threadpool(writer.write, piece)
                stored = await run_in_threadpool(writer.commit)
            finally:
                await run_in_threadpool(writer.abort)
        return {"digest": stored.digest, "nbytes": stored.nbytes}

    @app.delete("/blobs/{digest}", status_code=204)
    def delete_blob(request: Request, digest: str) -> None:
        may(request, WRITERS, "delete blobs")
        if not blobs.delete(digest):
            raise missing(digest)

    @app.get("/blobs")
    def list_blobs(request: Request) -> list[str]:
        may(request, READERS, "list blobs")
        return blobs.digests()


def _answer(request: Request, blobs: BlobStore, digest: str) -> Response:
    """A whole blob, a range of one, or the news that the asker has it already."""
    nbytes = blobs.size(digest)
    if nbytes is None:
        raise missing(digest)
    etag = f'"{digest}"'
    headers = {
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=31536000, immutable",
        "Vary": "Accept",
        packed.LENGTH_HEADER: str(nbytes),
    }
    if etag in [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]:
        return Response(status_code=304, headers=headers)
    same = request.headers.get("if-range", etag) == etag
    try:
        part = parse_range(request.headers.get("range") if same else None, nbytes)
    except OutOfRange as error:
        headers["Content-Range"] = f"bytes */{nbytes}"
        return JSONResponse({"kind": error.kind, "reason": error.reason}, 416, headers)
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{nbytes}"
    return _stream(request, blobs, digest, part or ByteRange(0, nbytes), headers, part is not None)


def _stream(
    request: Request,
    blobs: BlobStore,
    digest: str,
    part: ByteRange,
    headers: dict[str, str],
    partial: bool,
) -> Response:
    status, media = 206 if partial else 200, "application/octet-stream"
    link = packed.accepted_link(request.headers.get("accept", ""))
    if request.method == "HEAD":
        headers["Content-Length"] = str(len(part))
        return Response(status_code=status, headers=headers, media_type=media)
    chunks: Iterator[bytes] = blobs.read(digest, part.start, part.stop)
    if link is not None:
        return StreamingResponse(packed.pack(chunks, link), status, headers, packed.CONTENT_TYPE)
    headers["Content-Length"] = str(len(part))
    return StreamingResponse(chunks, status, headers, media)


def _add_manifests(app: FastAPI, manifests: Manifests, may: May) -> None:
    @app.get("/manifests")
    def list_manifests(request: Request) -> Response:
        """The names. Their tag changes when any of the manifests does."""
        may(request, READERS, "list models")
        etag = f'"{manifests.version()}"'  # before the names: what comes between is told next time
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"ETag": etag})
        return JSONResponse(manifests.names(), headers={"ETag": etag})

    @app.get("/manifests/{name}")
    def get_manifest(request: Request, name: str) -> Response:
        may(request, READERS, "read models")
        data = manifests.get(name)
        etag = f'"{digest_of(data)}"'
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers={"ETag": etag})
        return Response(data, headers={"ETag": etag}, media_type="application/json")

    @app.put("/manifests/{name}", status_code=201)
    async def put_manifest(request: Request, name: str) -> dict[str, str]:
        async with Upload(request, MAX_MANIFEST_NBYTES) as upload:
            await run_in_threadpool(may, request, WRITERS, "store models")
            upload.check_announced()
            data = b"".join([piece async for piece in upload.pieces()])
            await run_in_threadpool(manifests.put, name, data)
        return {"name": name}

    @app.delete("/manifests/{name}", status_code=204)
    def delete_manifest(request: Request, name: str) -> None:
        may(request, WRITERS, "remove models")
        if not manifests.remove(name):
            raise UnknownModel(f"the store has no model {name!r}")
