"""The orchestrator's folder: journal, the desk's key, and a lock so that two never share it."""

from __future__ import annotations

import fcntl
from pathlib import Path

from wire.errors import OperatorError
from wire.unwritable import unwritable

JOURNAL = "journal.sqlite"
DESK_KEY = "desk-key.pem"


class HomeFolder:
    """Made if need be, readable by its owner alone. Raises `OperatorError` if it is in use
    or cannot be written, `DiskFull`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = (path / "orchestrator.lock").open("a")
        except OSError as error:
            raise unwritable(path, error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise OperatorError(
                f"an orchestrator already runs in {path}; stop it, or choose another --home"
            ) from None

    @property
    def journal(self) -> Path:
        return self.path / JOURNAL

    @property
    def desk_key(self) -> Path:
        return self.path / DESK_KEY

    def close(self) -> None:
        self._lock.close()
