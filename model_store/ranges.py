"""The HTTP header `Range` with one range of bytes (RFC 9110, section 14)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wire.errors import OutOfRange

_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})")


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes `start` up to, not including, `stop`."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


def parse_range(header: str | None, nbytes: int) -> ByteRange | None:
    """The range that `header` asks of content of `nbytes` bytes.

    None says to send it all: no header, another unit, several ranges, or one that cannot be
    read, all of which a server may ignore. Raises `OutOfRange` (status 416).
    """
    match = _RANGE.fullmatch(header.replace(" ", "")) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        return _suffix(int(last), nbytes)
    if last and int(last) < int(first):
        return None
    if int(first) >= nbytes:
        raise OutOfRange(f"the range lies outside of the {nbytes} bytes")
    return ByteRange(int(first), min(nbytes, int(last) + 1) if last else nbytes)


def _suffix(count: int, nbytes: int) -> ByteRange:
    if count == 0 or nbytes == 0:
        raise OutOfRange(f"the range lies outside of the {nbytes} bytes")
    return ByteRange(max(0, nbytes - count), nbytes)
