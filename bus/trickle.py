"""When to read again from a socket over which a large message trickles in.

Over Wi-Fi a frame comes a TCP segment at a time: a thread that reads each as it comes wakes some
200 times for 393 KB, and is busy for as long as the frame takes (measured at 100 Mbit/s). On a
phone that computes meanwhile this is a tenth of its processor. So in the middle of a message, after
a read that found little, the next waits a moment. Between messages nothing waits, and nothing over
a link that is known to be fast: measured by what was sent over it, or seen in what came while a
read waited. Pure: the time comes with each call.
"""

from __future__ import annotations

import array
import socket

from bus.link import Link

PAUSE_S = 0.004
LEAST_NBYTES, MOST_NBYTES = 1 << 10, 96 << 10
FAST_NBYTES_PER_S = 3e7  # a frame of 393 KB is then here in 13 ms


class Trickle:
    def __init__(self, link: Link) -> None:
        self._link = link
        self.restart()

    def restart(self) -> None:
        """A new connection, of which nothing is known."""
        self._found_nbytes = 0
        self._left_at = self._until_s = 0.0
        self._comes_fast = False

    def found(self, nbytes: int, now: float) -> None:
        """So much is about to be read."""
        self._found_nbytes = nbytes
        if self._left_at:
            self._comes_fast = nbytes >= FAST_NBYTES_PER_S * (now - self._left_at)

    def left(self, unfinished: bool, now: float) -> None:
        """It was read; whether the last message of it is `unfinished`."""
        self._left_at = now if unfinished else 0.0
        little = LEAST_NBYTES <= self._found_nbytes < MOST_NBYTES
        if unfinished and little and not self._is_fast():
            self._until_s = now + PAUSE_S

    def _is_fast(self) -> bool:
        rate = self._link.nbytes_per_s
        return self._comes_fast or (rate is not None and rate >= FAST_NBYTES_PER_S)

    def pause_s(self, now: float) -> float:
        """For so long nothing need be read."""
        return max(0.0, self._until_s - now)


def waiting_nbytes(link: socket.socket) -> int:
    """Bytes that a read would find now; 0 where nothing tells."""
    told = array.array("i", [0])
    try:
        import fcntl
        import termios

        fcntl.ioctl(link.fileno(), termios.FIONREAD, told)
    except (ImportError, OSError):  # each piece is then read as it comes
        return 0
    return told[0]
