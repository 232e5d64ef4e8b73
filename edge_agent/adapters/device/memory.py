"""This process's memory: how much it takes, its peak, and giving it back to the system.

Reads `/proc/self`, which Android's apps may; elsewhere `resource` and psutil if it imports.
Keeps no budget: `runtime.loaded_partition` and the machine do.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_STATM = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # glibc's <malloc.h>
LARGE_NBYTES = 1 << 20
_LARGEST_NBYTES, _KEPT_NBYTES = 32 << 20, 128 << 20  # the most that glibc takes; anything above
_TRIM_NBYTES = 128 << 10  # glibc's own
_ROOMY_NBYTES = 4 << 20
_M_PURGE = -101  # bionic's <malloc.h>: release what the allocator keeps for later


def rss_nbytes() -> int:
    """Resident bytes of this process now; 0 where nothing tells."""
    try:
        pages = int(_STATM.read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return _status("VmRSS") or _foreign_rss()
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_rss_nbytes() -> int:
    """The largest RSS since the process started (VmHWM); 0 where nothing tells."""
    return _status("VmHWM") or _foreign_peak()


def anonymous_nbytes() -> int | None:
    """The part of RSS that no file backs, or None where the kernel does not say."""
    return _status("RssAnon")


def _status(name: str) -> int | None:
    """A line of /proc/self/status, in bytes."""
    try:
        lines = _STATUS.read_text().splitlines()
        line = next(line for line in lines if line.startswith(f"{name}:"))
        return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _foreign_rss() -> int:
    try:
        import psutil
    except Exception:  # psutil raises NotImplementedError where it does not know the platform
        return 0
    return int(psutil.Process().memory_info().rss)


def _foreign_peak() -> int:
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


@functools.cache
def _trimmer() -> tuple[str, Callable[[], object]] | None:
    try:
        libc = ctypes.CDLL(None)
    except (OSError, TypeError):
        return None
    if hasattr(libc, "malloc_trim"):
        return "malloc_trim", lambda: libc.malloc_trim(0)
    if hasattr(libc, "mallopt"):
        return "mallopt(M_PURGE)", lambda: libc.mallopt(_M_PURGE, 0)
    return None


def keep_large_blocks_apart() -> None:
    """Have the allocator map blocks of 1 MiB and more by themselves, so that the system has
    them back as soon as they are freed. glibc raises that limit to the largest block that was
    ever freed; what is freed then leaves holes in the heap that stay (measured: 7 to 20 MB)."""
    _limit_blocks(LARGE_NBYTES, _TRIM_NBYTES)


def keep_room_for_frames() -> None:
    """As `keep_large_blocks_apart`, and each thread's heap keeps room for some frames when they
    are freed: fresh pages for every frame of 393 KB cost the thread that receives it 250 page
    faults, a tenth of its time (measured). For a device with memory to spare, since some
    megabytes then come and go."""
    _limit_blocks(LARGE_NBYTES, _ROOMY_NBYTES)


@contextmanager
def reused_blocks() -> Iterator[None]:
    """Until its end, the allocator keeps what is freed and hands it out again: for what frees and
    allocates as much over and over, since fresh pages cost (measured: a third of the time that it
    takes to load segments). Up to one large block more stays in memory meanwhile."""
    _limit_blocks(_LARGEST_NBYTES, _KEPT_NBYTES)
    try:
        yield
    finally:
        keep_large_blocks_apart()
        trim()


def _limit_blocks(apart_nbytes: int, kept_nbytes: int) -> None:
    """Blocks from `apart_nbytes` are mapped by themselves; up to `kept_nbytes` at the heap's end
    are kept when free. Ignored, and no harm, where the allocator knows no such limits."""
    mallopt = _mallopt()
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, apart_nbytes)
        mallopt(_M_TRIM_THRESHOLD, kept_nbytes)


@functools.cache
def _mallopt() -> Callable[[int, int], int] | None:
    try:
        return ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):
        return None


def trim() -> None:
    """Hand memory that C code freed back to the system: takes 0.3 ms. Without it, most of a dropped
    ONNX Runtime session stays in the process (measured: 285 of 425 MB, 61 MB after the trim)."""
    trimmer = _trimmer()
    if trimmer is not None:
        trimmer[1]()


def trim_own_heap() -> None:
    """Hand the end of the calling thread's own heap back, which `trim` does for the heap of the
    first thread alone: freeing a block beside it has the allocator look."""
    bytearray(2 * _TRIM_NBYTES)


def collect_and_trim() -> None:
    """As `trim`, after Python has freed what only cycles hold: takes some 10 ms."""
    gc.collect()
    trim()


def trimming() -> str:
    """How freed memory is given back here, for people: empty if it cannot be."""
    trimmer = _trimmer()
    return "" if trimmer is None else trimmer[0]


def available_nbytes() -> tuple[int, int] | None:
    """(total, available) memory of the device, or None where it may not be read."""
    try:
        fields = {
            line.partition(":")[0]: int(line.split()[1]) * 1024
            for line in Path("/proc/meminfo").read_text().splitlines()
            if line.endswith("kB")
        }
        return fields["MemTotal"], fields["MemAvailable"]
    except (OSError, ValueError, KeyError, IndexError):
        return _foreign_available()


def _foreign_available() -> tuple[int, int] | None:
    try:
        import psutil

        memory = psutil.virtual_memory()
    except Exception:  # whatever psutil raises on a platform it does not know
        return None
    return int(memory.total), int(memory.available)
