"""How fast the link is, as its transfers showed: bytes a second and round trip.

Averages what it is told; it sends no probes. Safe to use from several threads.
"""

from __future__ import annotations

import threading

SMALLEST_NBYTES = 64 << 10  # below this a transfer measures latency, not bandwidth
WEIGHT = 0.3  # of the newest measurement


class Link:
    """`sent` and `received` feed the two directions; small QoS 1 round trips feed `echoed`."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._up: float | None = None
        self._down: float | None = None
        self._rtt_s: float | None = None

    def sent(self, nbytes: int, seconds: float) -> None:
        with self._guard:
            self._up = _averaged(self._up, nbytes, seconds)

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
        return self._down if self._up is None else self._up


def _averaged(known: float | None, nbytes: int, seconds: float) -> float | None:
    if nbytes < SMALLEST_NBYTES or seconds <= 0:
        return known
    rate = nbytes / seconds
    return rate if known is None else known + WEIGHT * (rate - known)
