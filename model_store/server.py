"""The store as a server, in a thread of the calling process.

Takes its port first, so that a taken one is an error at once, and answers once `start` returns.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from model_store.access import Authorise
from model_store.app import create_app
from model_store.blobs import FolderBlobs
from model_store.connection_limits import ConnectionLimits
from model_store.http_protocol import HttpProtocol
from model_store.manifests import Manifests
from model_store.tls_door import TlsDoor
from wire.errors import OperatorError, PortTaken, StoreUnreachable, TimedOut

START_LIMIT_S = 10.0
STOP_LIMIT_S = 10.0
FAREWELL_S = 3  # what downloads get to finish when the store stops
BACKLOG = 1024  # connections that the system takes for us; with more, they wait for seconds
AT_ONCE = 16  # that we take from there, before we hear what those that we have say
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class StoreServer:
    """A store in `folder`, served at `host`:`port`; port 0 picks a free one. With `certificate`, a
    file of chain and key, it speaks HTTPS alone."""

    def __init__(
        self,
        folder: Path,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        authorise: Authorise,
        certificate: Path | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.blobs = FolderBlobs(folder)
        self.manifests = Manifests(folder, self.blobs)
        self._authorise = authorise
        self._certificate = certificate
        self._context: ssl.SSLContext | None = None
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def base(self) -> str:
        """Where this machine reaches it: `http://host:port`, or https."""
        host = WILDCARDS.get(self.host, self.host)
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def scheme(self) -> str:
        return "http" if self._certificate is None else "https"

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Serve. Raises `PortTaken`, or `StoreUnreachable` if it cannot be started."""
        if self._server is not None:
            return
        self._context = None if self._certificate is None else _context(self._certificate)
        listener = take_port(self.host, self.port)
        self.port = listener.getsockname()[1]
        app = create_app(self.blobs, self.manifests, self._authorise)
        server = _Server(_configuration(app, self._context))
        thread = threading.Thread(
            target=server.run, args=([listener],), name="model-store", daemon=True
        )
        thread.start()
        if not server.ready.wait(START_LIMIT_S) or server.should_exit:
            server.should_exit = True
            listener.close()
            raise StoreUnreachable(
                f"the store did not start within {START_LIMIT_S:g} s; start it again"
            )
        self._server, self._thread = server, thread

    def reload(self) -> None:
        """Show the certificate as its file has it now to whoever connects from here on."""
        if self._server is not None and self._context is not None:
            self._server.call(self._context.load_cert_chain, self._certificate)

    def stop(self) -> None:
        """Stop serving; downloads get a few seconds to finish. Twice does nothing."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        server.should_exit = True
        thread.join(STOP_LIMIT_S)
        if thread.is_alive():
            server.force_exit = True
            thread.join(STOP_LIMIT_S)
        if thread.is_alive():
            raise TimedOut(f"the store did not stop within {2 * STOP_LIMIT_S:g} s")
        self._server = self._thread = None

    def wait(self) -> None:
        """Until the server ends."""
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> StoreServer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


class _Server(uvicorn.Server):
    """Says when it answers. (Outside of the main thread uvicorn leaves signals alone.)"""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, what: Callable[..., object], *arguments: object) -> None:
        """In its thread, soon."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(what, *arguments)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            self._loop = asyncio.get_running_loop()
            await super().startup(sockets)
            for listener in sockets or []:
                listener.listen(BACKLOG)  # asyncio takes one number for this and for `AT_ONCE`
        finally:
            self.ready.set()


def _context(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate)
    except OSError as error:  # which an `SSLError` is
        raise OperatorError(
            f"the store cannot serve with {certificate}: {error.strerror or error}; give a file of "
            "certificate, chain and key"
        ) from None
    return context


def _configuration(app: object, context: ssl.SSLContext | None) -> uvicorn.Config:
    limits: ConnectionLimits[Any] = ConnectionLimits()
    protocol = partial(HttpProtocol, limits)
    door = protocol if context is None else partial(TlsDoor, limits, context, protocol)
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's type of an ASGI app is narrower than FastAPI's
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        http=door,  # type: ignore[arg-type]  # called as a class is
        backlog=AT_ONCE,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=FAREWELL_S,
    )


def take_port(host: str, port: int) -> socket.socket:
    """A listening socket; `PortTaken` if another program has the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"port {port} on {host} is taken by another program; "
                "stop that one or choose another port"
            ) from None
        raise OperatorError(f"the store cannot listen on {host}:{port}: {error}") from None
