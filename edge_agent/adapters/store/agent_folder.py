"""The agent's folder on disk: one agent at a time, and what lies where in it."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from wire.errors import OperatorError

LOCK_NAME = "agent.lock"


class FolderTaken(OperatorError):
    """Another agent works in this folder, or it cannot be written."""

    kind = "folder_taken"


class AgentFolder:
    """Holds the folder until `close`. `blobs` is flat, so that graphs find their weights;
    `spool` is emptied at each start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = _locked(path)

    @property
    def blobs(self) -> Path:
        return self.path / "blobs"

    @property
    def spool(self) -> Path:
        return self.path / "spool"

    @property
    def authority(self) -> Path:
        """The certificate of the authority whose fingerprint the broker's address names."""
        return self.path / "authority.pem"

    @property
    def work_note(self) -> Path:
        return self.path / "at-work"

    @property
    def replacements(self) -> Path:
        return self.path / "replaced"

    @property
    def obeyed(self) -> Path:
        return self.path / "obeyed"

    def close(self) -> None:
        self._lock.close()


def _locked(path: Path) -> IO[bytes]:
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = (path / LOCK_NAME).open("ab")
    except OSError as error:
        raise FolderTaken(
            f"cannot write to {path}: {error.strerror}; give another --cache"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise FolderTaken(
            f"another agent works in {path}; stop it, or give this one its own --cache"
        ) from None
    return lock
