"""When to read again from a socket over which a large message trickles in.

Over Wi-Fi a frame comes a TCP segment at a time: a thread that reads each as it comes wakes some
200 times for 393 KB, and is busy for as long as the frame takes (measured at 100 Mbit/s). On a
phone that computes meanwhile this is a tenth of its processor. So in the middle of a message, after
a read that found little, the next waits a moment. Between messages nothing waits, and nothing over
a link that is known to be fast: measured by what was sent over it, or seen in what came while a
read waited. Pure: the time comes with each call.
"""

from __future__ import annotations

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
        self._left_at = self._until_s = 0.0
        self._comes_fast = False

    def read(self, nbytes: int, begun: float, now: float, *, unfinished: bool) -> None:
        """So much was read, from `begun` on; whether the last message of it is `unfinished`."""
        if self._left_at:
            self._comes_fast = nbytes >= FAST_NBYTES_PER_S * (begun - self._left_at)
        self._left_at = now if unfinished else 0.0
        if unfinished and LEAST_NBYTES <= nbytes < MOST_NBYTES and not self._is_fast():
            self._until_s = now + PAUSE_S

    def _is_fast(self) -> bool:
        rate = self._link.nbytes_per_s
        return self._comes_fast or (rate is not None and rate >= FAST_NBYTES_PER_S)

    def pause_s(self, now: float) -> float:
        """For so long nothing need be read."""
        return max(0.0, self._until_s - now)
