"""When to read again from a link over which a large message trickles in.

Over Wi-Fi a frame comes a TCP segment at a time: a thread that reads each as it comes wakes some
200 times for 393 KB, and is busy for as long as the frame takes (measured at 100 Mbit/s). On a
phone that computes meanwhile this is a tenth of its processor. So after a read that found little,
but more than any small message, the next waits a moment. What comes all at once, as on a fast
link, is read at once, and so are small messages.
"""

from __future__ import annotations

import array
import socket

PAUSE_S = 0.002
LEAST_NBYTES, MOST_NBYTES = 1 << 10, 32 << 10


class Trickle:
    def __init__(self) -> None:
        self._until_s = 0.0

    def found(self, nbytes: int, now: float) -> None:
        """So much is about to be read."""
        if LEAST_NBYTES <= nbytes < MOST_NBYTES:
            self._until_s = now + PAUSE_S

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
