"""Files that hold secrets: readable by their owner alone, and replaced whole or not at all.

A file that holds the same already is left alone, since a full disk does not take even that again.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from wire.errors import OperatorError
from wire.unwritable import FULL, unwritable, writing_in

PRIVATE = 0o600


def write_private(path: Path, data: bytes) -> None:
    """Replace `path` by `data` with mode 0600; a reader sees the old file or the new one. Raises
    `DiskFull`, or `OperatorError` that says why it cannot be written."""
    if _holds(path, data):
        return
    with writing_in(path.parent):
        _replace(path, data)


def _holds(path: Path, data: bytes) -> bool:
    try:
        status = path.lstat()
        same = stat.S_ISREG(status.st_mode) and status.st_size == len(data)
        return same and stat.S_IMODE(status.st_mode) == PRIVATE and path.read_bytes() == data
    except OSError:
        return False


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # O_EXCL and the mode at creation: at no moment can another user open the secret.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def make_private_folder(folder: Path) -> Path:
    """`folder`, made with mode 0700 where it is missing. Raises `DiskFull` or `OperatorError`."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        if error.errno in FULL:
            raise unwritable(folder, error) from None
        raise OperatorError(
            f"{folder} cannot be used as a folder: {error.strerror}; choose another"
        ) from None
    return folder
