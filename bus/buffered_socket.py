"""A socket that reads ahead, and that writes together what is written in one turn.

paho asks for a message's first byte, for each byte of its length and for the rest: four system
calls for a telemetry message of 600 bytes, a sixth of what hearing it took. And it acknowledges
each message in a call of its own, which took two fifths of the time in which an orchestrator reads
what ten thousand devices retain. Here one call reads what has come, up to `AHEAD_NBYTES`, and one
writes what was to be sent meanwhile. What is asked for or given in larger pieces, the body of a
frame, is read and written as it would be without, and not copied.

It reads ahead once each time that it was found `readable`, and otherwise no more than was asked
for, and only where the last read may have left something: no read is tried in vain, and a flood
does not keep its reader from writing. Waits for nothing; whoever waits looks at `pending` and
`unsent` first, since `select` sees neither.
"""

from __future__ import annotations

import socket
from typing import Any

AHEAD_NBYTES = 64 << 10
TOGETHER_NBYTES = 16 << 10  # more is written at once


class BufferedSocket:
    """`link` does not block, from before its first use. `read_nbytes`: all that came so far.

    `hold` keeps what is sent from here on until `flush`; a caller who never holds notices
    nothing."""

    __slots__ = (
        "_ahead",
        "_at",
        "_held",
        "_in_records",
        "_link",
        "_more",
        "_over",
        "_readable",
        "_undecrypted",
        "_unsent",
        "close",
        "fileno",
        "getpeername",
        "read_nbytes",
        "setblocking",
        "setsockopt",
    )

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._undecrypted: Any = getattr(link, "pending", int)  # bytes that TLS has ready
        self._in_records = hasattr(link, "pending")  # TLS gives one at a time, there may be more
        self._more = False
        self._ahead = b""
        self._at = 0
        self._readable = True
        self._over = False
        self._unsent = bytearray()
        self._held = False
        self.read_nbytes = 0
        self.close = link.close
        self.fileno = link.fileno
        self.setblocking = link.setblocking
        self.setsockopt = link.setsockopt
        self.getpeername = link.getpeername

    # --- reading ------------------------------------------------------------------------------

    def readable(self) -> None:
        """`select` found it so: one more read will bring something."""
        self._readable = True

    def pending(self) -> int:
        """Bytes that can be had without waiting for the network."""
        return len(self._ahead) - self._at + int(self._undecrypted())

    def recv(self, nbytes: int) -> bytes:
        """At most so many bytes; none once the connection is over. Raises `BlockingIOError` if
        there is nothing until it is readable again, and what the socket raises."""
        if not self._ahead:
            if self._over or nbytes >= AHEAD_NBYTES:
                return self._received(nbytes)
            if not self._readable and not self._undecrypted():
                if not self._more:
                    raise BlockingIOError
                return self._received(nbytes)
            self._readable = False
            self._ahead = self._received(AHEAD_NBYTES)
        return self._served(nbytes)

    def _served(self, nbytes: int) -> bytes:
        begin, end = self._at, self._at + nbytes
        data = self._ahead[begin:end]
        if end < len(self._ahead):
            self._at = end
        else:
            self._ahead, self._at = b"", 0
        return data

    def _received(self, nbytes: int) -> bytes:
        if self._over:
            return b""
        self._more = False  # if it raises
        data = self._link.recv(nbytes)
        self._more = self._in_records or len(data) == nbytes
        self.read_nbytes += len(data)
        return data

    # --- writing ------------------------------------------------------------------------------

    def hold(self) -> None:
        self._held = True

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """How many bytes of it were taken. Raises `BlockingIOError` if there is no room now, and
        what the socket raises."""
        together = len(self._unsent) + len(data) <= TOGETHER_NBYTES
        if self._held and together:
            self._unsent += data
            return len(data)
        if self._unsent and not self._sent():
            raise BlockingIOError
        return self._link.send(data)

    def flush(self) -> bool:
        """Send what was held; whether all of it went. Raises what the socket raises."""
        self._held = False
        return self._sent()

    @property
    def unsent(self) -> bool:
        """Something is to be sent as soon as there is room."""
        return bool(self._unsent)

    def _sent(self) -> bool:
        try:
            while self._unsent:
                del self._unsent[: self._link.send(self._unsent)]
        except BlockingIOError:
            return False
        except OSError as error:
            if not (self._in_records and _wants_to_wait(error)):
                raise
            return False
        return True

    def shutdown(self, how: int) -> None:
        """It is over: what was not read yet is lost with it, and comes again."""
        self._over, self._ahead, self._at = True, b"", 0
        self._unsent = bytearray()
        self._link.shutdown(how)


def _wants_to_wait(error: OSError) -> bool:
    """Over TLS there is no room now. A link without TLS never loads it."""
    import ssl

    return isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError))
