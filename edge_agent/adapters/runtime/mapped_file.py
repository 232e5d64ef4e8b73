"""Pages of files that this process has mapped: brought in as large pages, and given back.

ONNX Runtime maps the weights of a session and keeps them; where they lie is in
`/proc/self/maps`. Given back, a page of an unchanged mapped file leaves RSS and stays in the
system's page cache, from where it returns when it is touched. That is cheap where the cache has
the file in large pages: measured, 2 to 4 % of the time to compute with it, against 16 to 25 % with
small ones. It has them if the file was written or read through, or if the mapping asks for them;
a file that is touched page by page, or asked for with `MADV_WILLNEED`, comes in small ones.
Without `/proc` or `madvise` nothing happens: memory is then larger, and nothing else differs.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_DONTNEED, _HUGEPAGE = 4, 14  # <sys/mman.h> of Linux
_LARGE_PAGE_NBYTES = 2 << 20
_CHUNK_NBYTES = 1 << 20
Range = tuple[int, int]


class MappedFile:
    """One file, by the address ranges at which this process has mapped it now.

    Must not outlive the session that maps it: the addresses belong to others then, and giving them
    back would empty those.
    """

    def __init__(self, file: Path) -> None:
        self._ranges = _ranges_of(file)
        self._advise(_HUGEPAGE)

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


def bring_in(file: Path) -> None:
    """Have the page cache hold the file in large pages, unless it holds it already: for what is
    about to be mapped and touched all over."""
    # Only a hint: what is wrong with the file is said by whoever loads it.
    with suppress(OSError), file.open("rb", buffering=0) as opened:
        if not is_cached(opened.fileno()):
            chunk = bytearray(_CHUNK_NBYTES)
            while opened.readinto(chunk):
                pass


def is_cached(descriptor: int) -> bool:
    """By a look at a byte of each large page, without waiting for the disk. True where nothing
    tells."""
    nbytes = os.fstat(descriptor).st_size
    byte = bytearray(1)
    try:
        for offset in range(0, nbytes, _LARGE_PAGE_NBYTES):
            os.preadv(descriptor, [byte], offset, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except (OSError, AttributeError):  # not every file system and Python knows it
        return True
    return True


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
