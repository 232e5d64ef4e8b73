"""Why a file could not be written, as the typed error that names the folder and says what to do.

For whoever writes files that must be kept; it writes none itself.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wire.errors import DiskFull, OperatorError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED = frozenset({errno.EACCES, errno.EPERM})


def unwritable(folder: Path, error: OSError) -> OperatorError:
    """`error`, met while writing below `folder`: `DiskFull` if there is no room."""
    if error.errno in FULL:
        return DiskFull(f"no room left on the disk of {folder}: make room there, and try again")
    if error.errno == errno.EROFS:
        return OperatorError(
            f"{folder} is on a file system that is mounted read-only: mount it anew, or choose "
            "another folder"
        )
    if error.errno in _REFUSED:
        return OperatorError(
            f"{error.filename or folder} may not be written by this user: change the rights of "
            f"{folder}, or choose another folder"
        )
    return OperatorError(f"cannot write in {folder}: {error.strerror or error}")


@contextmanager
def writing_in(folder: Path) -> Iterator[None]:
    """Any `OSError` inside as `unwritable` says it."""
    try:
        yield
    except OSError as error:
        raise unwritable(folder, error) from None
