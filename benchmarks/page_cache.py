"""Cold files: has the system forget what it keeps of a folder's files in memory.

Needs no rights: only clean pages that no process has mapped are given up, so files are written
out first. What a process has mapped stays.
"""

from __future__ import annotations

import os
from pathlib import Path


def forget(folder: Path) -> None:
    """Every plain file below `folder`."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            _forget_file(path)


def _forget_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
