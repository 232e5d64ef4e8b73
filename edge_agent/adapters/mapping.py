"""Pages of files that this process has mapped: asked for ahead, and given back behind.

ONNX Runtime maps the weights of a session and keeps them; where they lie is in
`/proc/self/maps`. Given back, a page of an unchanged mapped file leaves RSS and stays in the
system's page cache, from where it returns when it is touched. Without `/proc` or `madvise`
nothing happens: memory is then larger, and nothing else differs.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_WILLNEED, _DONTNEED = 3, 4  # <sys/mman.h> of Linux
Range = tuple[int, int]


class Mapping:
    """The ranges at which one file is mapped now.

    Must not outlive the session that maps them: the addresses are others' then, and giving them
    back would empty those.
    """

    def __init__(self, file: Path) -> None:
        self._ranges = _ranges_of(file)

    @property
    def nbytes(self) -> int:
        return sum(end - start for start, end in self._ranges)

    def ask_for(self) -> None:
        """Have the system read what it lacks of it. Returns at once, and takes no RSS."""
        self._advise(_WILLNEED)

    def give_back(self) -> None:
        self._advise(_DONTNEED)

    def _advise(self, advice: int) -> None:
        madvise = _madvise()
        if madvise is not None:
            for start, end in self._ranges:
                madvise(start, end - start, advice)  # advice: a refusal costs only memory

    def forget(self) -> None:
        """The session is about to go."""
        self._ranges = ()


def _ranges_of(file: Path) -> tuple[Range, ...]:
    """Where `file` is mapped; nothing where that cannot be read."""
    name = b" " + str(file.resolve()).encode()
    try:
        lines = _MAPS.read_bytes().splitlines()
    except OSError:
        return ()
    return tuple(_range_of(line) for line in lines if line.endswith(name))


def _range_of(line: bytes) -> Range:
    start, _, end = line.split(b" ", 1)[0].partition(b"-")
    return int(start, 16), int(end, 16)


@functools.cache
def _madvise() -> Callable[[int, int, int], int] | None:
    try:
        found = ctypes.CDLL(None).madvise
    except (OSError, TypeError, AttributeError):
        return None
    found.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    found.restype = ctypes.c_int
    return found
