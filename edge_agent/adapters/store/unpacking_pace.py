"""Whether blobs are worth having packed on this device's link, by how long it takes to unpack them.

Packing saves about a sixth of the bytes (`wire.packed`). That is less time than unpacking takes on
a link that is fast against the processor. A link that was not measured yet is taken to be slow.
Safe to use from several threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from bus.link import Link
from wire.errors import BlobCorrupt, CrowdpipeError
from wire.packed import LARGEST_NBYTES_PER_S, Unpacking, accept
from wire.planes import Buffer

SAVED = 0.16  # of the bytes (measured with fp32 weights)
USUAL_NBYTES_PER_S = 3e8  # unpacked by one x86 core (measured)
WEIGHT = 0.1  # of the newest block
FORGOTTEN = 0.1  # of what was measured, with each blob that was therefore not packed
PLAIN = "application/octet-stream"


class UnpackingPace:
    def __init__(self, link: Link) -> None:
        self._link = link
        self._guard = threading.Lock()
        self._seconds_per_byte = 1 / USUAL_NBYTES_PER_S

    def accept(self) -> str:
        """What to ask the store for."""
        link = self._link.down_nbytes_per_s
        if link is None:
            return accept(None)
        if link >= LARGEST_NBYTES_PER_S:
            return PLAIN
        if SAVED / link > self._seconds_per_byte:
            return accept(link)
        self._move(1 / USUAL_NBYTES_PER_S, FORGOTTEN)  # one slow moment is not believed for good
        return PLAIN

    def timed(self, unpacking: Unpacking, chunk: bytes) -> Iterator[Buffer]:
        """The blocks that are whole with this chunk. Raises `BlobCorrupt`."""
        blocks = unpacking.feed(chunk)
        while True:
            began_s = time.monotonic()
            try:
                block = next(blocks, None)
            except CrowdpipeError as error:
                raise BlobCorrupt(f"the store packed a blob wrongly: {error}") from None
            if block is None:
                return
            self._took(len(block), time.monotonic() - began_s)
            yield block

    def _took(self, nbytes: int, seconds: float) -> None:
        self._move(seconds / nbytes, WEIGHT)

    def _move(self, to: float, weight: float) -> None:
        with self._guard:
            self._seconds_per_byte += weight * (to - self._seconds_per_byte)
