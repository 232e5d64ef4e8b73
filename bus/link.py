"""How fast the link is, as its transfers showed: bytes a second and round trip.

It sends no probes. Safe to use from several threads.
"""

from __future__ import annotations

import threading
from collections import deque

SMALLEST_NBYTES = 64 << 10  # below this a transfer measures latency, not bandwidth
WEIGHT = 0.3  # of the newest fetch
LATE = 8  # of so many times in which something was sent the second fastest counts


class Link:
    """`sent` and `received` feed the two directions; small QoS 1 round trips feed `echoed`."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._up: deque[float] = deque(maxlen=LATE)
        self._down: float | None = None
        self._rtt_s: float | None = None

    def sent(self, nbytes: int, seconds: float) -> None:
        """Who has little to send measures himself and not the link: frames of 50 KB on loopback,
        on a busy machine, looked like 4 MB/s, and plans avoided it. So slow times say less than
        fast ones, as in BBR (Cardwell et al., ACM Queue 14(5), 2016), and the fastest may be a
        burst that some queue swallowed."""
        if nbytes >= SMALLEST_NBYTES and seconds > 0:
            with self._guard:
                self._up.append(nbytes / seconds)

    def received(self, nbytes: int, seconds: float) -> None:
        with self._guard:
            self._down = _averaged(self._down, nbytes, seconds)

    def echoed(self, seconds: float) -> None:
        """The round trip of something small. The least of late ones stands, since what queues
        before it in our own outbox is not the link's doing; it rises slowly again."""
        with self._guard:
            slow = seconds if self._rtt_s is None else self._rtt_s * 1.1
            self._rtt_s = min(seconds, slow)

    @property
    def rtt_s(self) -> float | None:
        return self._rtt_s

    @property
    def down_nbytes_per_s(self) -> float | None:
        """Of what we fetch."""
        return self._down

    @property
    def nbytes_per_s(self) -> float | None:
        """Of what we send; of what we fetch as long as nothing large was sent."""
        with self._guard:
            late = sorted(self._up)
        return (late[-2] if len(late) > 1 else late[-1]) if late else self._down


def _averaged(known: float | None, nbytes: int, seconds: float) -> float | None:
    if nbytes < SMALLEST_NBYTES or seconds <= 0:
        return known
    rate = nbytes / seconds
    return rate if known is None else known + WEIGHT * (rate - known)
