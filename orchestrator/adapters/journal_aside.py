"""A journal that cannot be believed is kept aside, and a new one is begun.

Nothing of it is used: see ADR 25. Nothing of it is deleted either: it is the person's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from orchestrator.adapters.journal import Journal
from orchestrator.adapters.journal_file import BESIDE
from wire.errors import CrowdpipeError, JournalDamaged, OperatorError

NAMES_LIMIT = 1000

_log = logging.getLogger("crowdpipe.orchestrator.journal")


def open_journal(
    path: Path, limit_nbytes: int | None, died: Callable[[CrowdpipeError], None]
) -> tuple[Journal, str | None]:
    """The journal, and a sentence for the person if a damaged one had to be kept aside."""
    try:
        return Journal(path, limit_nbytes, died), None
    except JournalDamaged as error:
        kept = set_aside(path)
        said = (
            f"the journal could not be used ({error.damage}) and is kept as {kept}; a new one is "
            "begun, without the runs in it: submit them again, or stop and restore a backup"
        )
        _log.warning("%s", said)
        return Journal(path, limit_nbytes, died), said


def set_aside(path: Path, why: str = "damaged") -> Path:
    """Rename the file, and what SQLite has beside it; the new name has `why` and the time (UTC) in
    it."""
    kept = _free_name(path, why)
    try:
        for end in BESIDE:
            file = path.with_name(path.name + end)
            if file.exists():
                file.rename(kept.with_name(kept.name + end))
    except OSError as error:
        raise OperatorError(
            f"the journal {path} cannot be kept aside: {error.strerror}; move it away"
        ) from None
    return kept


def _free_name(path: Path, why: str) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    names = (
        path.with_name(f"{path.stem}-{why}-{stamp}{more}{path.suffix}")
        for more in ("", *(f"-{number}" for number in range(2, NAMES_LIMIT)))
    )
    return next(name for name in names if not name.exists())
