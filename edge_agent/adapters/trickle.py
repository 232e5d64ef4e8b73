"""When to read again from a link over which a large message trickles in.

Over Wi-Fi a frame comes a TCP segment at a time: a thread that reads each as it comes wakes some
200 times for 393 KB, and is busy for as long as the frame takes (measured at 100 Mbit/s). On a
phone that computes meanwhile this is a tenth of its processor. So after a read that found little,
but more than any small message, the next waits a moment. What comes all at once is read at once,
and so are small messages, and all that comes over a link that was measured to be fast.
"""

from __future__ import annotations

import array
import socket

from edge_agent.adapters.link import Link

PAUSE_S = 0.004
LEAST_NBYTES, MOST_NBYTES = 1 << 10, 96 << 10
FAST_NBYTES_PER_S = 3e7  # a frame of 393 KB is then here in 13 ms


class Trickle:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._until_s = 0.0

    def found(self, nbytes: int, now: float) -> None:
        """So much is about to be read."""
        if LEAST_NBYTES <= nbytes < MOST_NBYTES and not self._is_fast():
            self._until_s = now + PAUSE_S

    def _is_fast(self) -> bool:
        rate = self._link.nbytes_per_s
        return rate is not None and rate >= FAST_NBYTES_PER_S

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
