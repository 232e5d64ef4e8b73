"""How fast what we send leaves: bytes acknowledged over the time in which something was on its way.

Acknowledgements come in bursts, so the time between two of them says nothing: measured, 180 MB/s
on a link of 12.5. Only large messages count, from the first that goes out to the last that is
acknowledged, less a small message's way there and back; a time that does not end is cut off after
`LONGEST_S`. Pure: the time comes with each call.
"""

from __future__ import annotations

from bus.link import Link

LARGE_NBYTES = 4 << 10
LONGEST_S = 1.0


class SendingRate:
    def __init__(self, link: Link) -> None:
        self._link = link
        self.restart()

    def restart(self) -> None:
        """A new connection: nothing is on its way."""
        self._under_way = 0
        self._nbytes = 0
        self._since = 0.0

    def began(self, nbytes: int, now: float) -> None:
        if nbytes <= LARGE_NBYTES:
            return
        if not self._under_way:
            self._since, self._nbytes = now, 0
        self._under_way += 1

    def acknowledged(self, nbytes: int, sent_s: float, now: float) -> None:
        """A message that went out at `sent_s`."""
        if nbytes <= LARGE_NBYTES:
            if not self._under_way:
                self._link.echoed(now - sent_s)
            return
        self._under_way -= 1
        self._nbytes += nbytes
        if not self._under_way:
            self._tell(now - self._since, self._link.rtt_s or 0.0)
        elif now - self._since >= LONGEST_S:
            self._tell(now - self._since, 0.0)
            self._since, self._nbytes = now, 0

    def _tell(self, seconds: float, rtt_s: float) -> None:
        self._link.sent(self._nbytes, max(seconds - rtt_s, seconds / 2))
