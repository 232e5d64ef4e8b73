"""Files that hold secrets: readable by their owner alone, and replaced whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from wire.errors import OperatorError


def write_private(path: Path, data: bytes) -> None:
    """Replace `path` by `data` with mode 0600; a reader sees the old file or the new one."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # O_EXCL and the mode at creation: at no moment can another user open the secret.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
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
    """`folder`, made with mode 0700 where it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OperatorError(
            f"{folder} cannot be used as a folder: {error.strerror}; choose another"
        ) from None
    return folder
