"""The body of a PUT: bounded in bytes and in time, and read to its end when it is refused.

A server that answers and closes while the sender is still sending resets the connection, and
the sender never reads why it was refused. So a refused body is read on and thrown away, up to a
bound; beyond it the sender sees a broken connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import Request
from starlette.requests import ClientDisconnect

from model_store.blobs import CHUNK_NBYTES
from wire.errors import CrowdpipeError, Malformed, TimedOut, TooLarge

PAUSE_LIMIT_S = 60.0
DISCARD_LIMIT_NBYTES = 64 << 20
DISCARD_LIMIT_S = 10.0


class Upload:
    """The body of one request, at most `limit_nbytes` long. Use it in `async with`."""

    def __init__(self, request: Request, limit_nbytes: int) -> None:
        self._limit_nbytes = limit_nbytes
        self._announced = request.headers.get("content-length", "0")
        self._stream = request.stream()
        self._ended = False

    def check_announced(self) -> None:
        """Refuse the body by its announced length, before any of it is read."""
        if self._announced.isdecimal() and int(self._announced) > self._limit_nbytes:
            raise TooLarge(
                f"{self._announced} bytes announced; at most {self._limit_nbytes} are taken"
            )

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body in pieces of about a MiB, since each costs a trip to another thread.

        Raises `TooLarge`, `TimedOut` when the sender pauses too long, `Malformed` when it
        breaks off.
        """
        gathered, seen_nbytes = bytearray(), 0
        while (piece := await self._next()) is not None:
            seen_nbytes += len(piece)
            if seen_nbytes > self._limit_nbytes:
                raise TooLarge(f"the body has more than the {self._limit_nbytes} bytes allowed")
            gathered += piece
            if len(gathered) >= CHUNK_NBYTES:
                yield bytes(gathered)
                gathered.clear()
        if gathered:
            yield bytes(gathered)

    async def _next(self) -> bytes | None:
        """What the network brings next; None at the end."""
        if self._ended:
            return None
        try:
            return await asyncio.wait_for(anext(self._stream), PAUSE_LIMIT_S)
        except StopAsyncIteration:
            self._ended = True
            return None
        except ClientDisconnect:
            self._ended = True
            raise Malformed("the upload broke off before its end") from None
        except TimeoutError:
            self._ended = True
            raise TimedOut(f"no byte of the upload for {PAUSE_LIMIT_S:g} s") from None

    async def _discard(self) -> None:
        left_nbytes = DISCARD_LIMIT_NBYTES
        async with asyncio.timeout(DISCARD_LIMIT_S):
            while left_nbytes > 0 and (piece := await self._next()) is not None:
                left_nbytes -= len(piece)

    async def __aenter__(self) -> Upload:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, CrowdpipeError):
            return
        try:
            await self._discard()
        except (TimeoutError, CrowdpipeError):
            return  # the sender is gone or too slow; what matters is the error on its way
