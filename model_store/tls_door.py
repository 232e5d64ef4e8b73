"""Where a connection over TLS begins: counted, and given an end, before its handshake is over.

asyncio tells a protocol of a connection when TLS is agreed on. Until then, up to a minute, one that
says nothing would be in nobody's limits, and some hundreds of them keep everybody else out. Here it
takes a place from the first moment, and gives it to HTTP when the handshake is done.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from model_store.connection_limits import ConnectionLimits
from model_store.http_protocol import HEAD_S, HttpProtocol


class TlsDoor(asyncio.Protocol):
    """Makes an `HttpProtocol` of `make`, called as the server would, for who comes through."""

    transport: asyncio.Transport

    def __init__(
        self,
        limits: ConnectionLimits[Any],
        context: ssl.SSLContext,
        make: Callable[..., HttpProtocol],
        *arguments: Any,
        **named: Any,
    ) -> None:
        self._limits = limits
        self._context = context
        self._make = partial(make, *arguments, **named)
        self._early = bytearray()  # said before we know that the handshake is over
        self._lost = False
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.pause_reading()  # the first bytes are for TLS
        closed = self._limits.admit(self, str((transport.get_extra_info("peername") or ("",))[0]))
        if closed is not None:
            closed.transport.abort()
        self._opening = asyncio.get_running_loop().create_task(self._open())

    def data_received(self, data: bytes) -> None:
        self._early += data

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True

    async def _open(self) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                self.transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HEAD_S,
            )
        except OSError:  # an `SSLError` too; who it was tries again
            secured = None
        finally:
            self._limits.left(self)
        if secured is None:
            self.transport.abort()
            return
        self._let_in(secured)

    def _let_in(self, secured: asyncio.Transport) -> None:
        if self._lost:  # between the handshake's end and our learning of it
            return
        inside = self._make()
        secured.set_protocol(inside)
        inside.connection_made(secured)
        if self._early:
            inside.data_received(bytes(self._early))
