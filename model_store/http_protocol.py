"""HTTP as uvicorn speaks it, with an end to waiting: for a request, its body, or a reader.

uvicorn limits how long a connection is kept between requests, and no other wait: one that sends
nothing, or a byte now and then, is kept for good, and some hundreds of them keep everybody else
out. Limits of how many there may be are `connection_limits`'.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from model_store.connection_limits import ConnectionLimits

HEAD_S = 15.0  # from the first byte, or from connecting, until a request's head is here
BODY_S = 30.0  # without any byte of a body
READ_S = 60.0  # without the other side reading any byte of an answer
LOOKS = 5  # in the shortest of these


class HttpProtocol(H11Protocol):
    """What answers a request calls `request.state.shown(user)` once that user's secret was shown,
    from any thread."""

    def __init__(
        self, limits: ConnectionLimits[HttpProtocol], *arguments: Any, **named: Any
    ) -> None:
        super().__init__(*arguments, **named)
        self.app_state = {**self.app_state, "shown": self._shown}
        self._limits = limits
        self._look_next: asyncio.TimerHandle | None = None
        self._head_since: float | None = None
        self._heard_at = self._read_at = 0.0
        self._unread_nbytes = 0

    def connection_made(
        self,
        transport: asyncio.Transport,  # type: ignore[override]  # uvicorn takes this kind alone
    ) -> None:
        super().connection_made(transport)
        self._close(self._limits.admit(self, self._address))
        self._head_since = self._heard_at = self._read_at = self.loop.time()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._look_next is not None:
            self._look_next.cancel()
        self._limits.left(self)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self.loop.time()
        if self._head_since is None and self.conn.their_state is h11.IDLE:
            self._head_since = self._heard_at
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head_since = None
            self._limits.ask(self, self._address)

    def on_response_complete(self) -> None:
        self._limits.rest(self, self._address)
        super().on_response_complete()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _shown(self, user: str) -> None:
        self.loop.call_soon_threadsafe(self._serve, user)

    def _serve(self, user: str) -> None:
        self._close(self._limits.serve(self, user))

    def _close(self, connection: HttpProtocol | None) -> None:
        if connection is not None:
            connection.transport.abort()

    def _look(self) -> None:
        """At what is waited for, now and then."""
        now = self.loop.time()
        if self._waits_in_vain(now):
            self.transport.abort()
            return
        self._look_next = self.loop.call_later(min(HEAD_S, BODY_S, READ_S) / LOOKS, self._look)

    def _waits_in_vain(self, now: float) -> bool:
        if self._head_since is not None and now >= self._head_since + HEAD_S:
            return True
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:
            return now >= self._heard_at + BODY_S
        unread_nbytes = self.transport.get_write_buffer_size()
        if unread_nbytes != self._unread_nbytes or not unread_nbytes:
            self._unread_nbytes, self._read_at = unread_nbytes, now
        return now >= self._read_at + READ_S
