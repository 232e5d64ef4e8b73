"""The journal's room on disk: given back at quiet moments, and some of it kept for bad ones.

On a full disk even forgetting a run needs room, since SQLite writes ahead what it changes; so a
file of noise lies beside the journal: for zeros, a disk that compresses would keep no room. It is
given up when a record that must be kept does not fit, and made again when there is room.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.adapters.journal_file import BUSY_LIMIT_S, limit_pages

FREE_PAGES = 256  # so many may lie in the file unused
STEP_PAGES = 512  # given back at a time: new records wait for that
RESERVE_NBYTES = 8 << 20
NOISE_NBYTES = 1 << 20  # made at a time
OPENING_NBYTES = 1 << 20
FULL_NBYTES = 64 << 10  # with less, a disk is full


def is_full(path: Path, error: sqlite3.Error) -> bool:
    """SQLite says so, or says that it could not write where there is no room."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_FULL:
        return True
    failed = code & 0xFF in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
    return failed and shutil.disk_usage(path.parent).free < FULL_NBYTES


def make_room(path: Path) -> None:
    """So that the journal can be opened on a full disk: SQLite needs some beside it for that."""
    with contextlib.suppress(OSError):  # a new home, or one that says itself what is wrong
        if shutil.disk_usage(path.parent).free < OPENING_NBYTES:
            _reserve_of(path).unlink(missing_ok=True)


def _reserve_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.reserve")


class JournalSpace:
    """Used by the one thread that writes."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, limit_nbytes: int | None
    ) -> None:
        self._connection = connection
        self._limit_nbytes = limit_nbytes
        self._reserve = _reserve_of(path)
        self.refill()

    def tidy(self) -> bool:
        """Give back one step's worth; whether there is more."""
        free = self._connection.execute("PRAGMA freelist_count").fetchone()[0]
        if free > FREE_PAGES:
            pages = min(STEP_PAGES, free)
            self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")  # to its end
        self._checkpoint()
        self.refill()
        return bool(free > FREE_PAGES + STEP_PAGES)

    def _checkpoint(self) -> None:
        """Take in what was written ahead; whoever reads just now is not waited for."""
        self._connection.execute("PRAGMA busy_timeout=0")
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={int(BUSY_LIMIT_S * 1000)}")

    @property
    def is_short(self) -> bool:
        """What was kept for a full disk is given up: the rest is for what must be kept."""
        if self._reserve.exists():
            return False
        return shutil.disk_usage(self._reserve.parent).free < RESERVE_NBYTES

    @contextmanager
    def reserve_open(self) -> Iterator[None]:
        """Inside there is room for what must be kept. What the disk takes by this is gone until
        there is room again; beyond a limit of ours it may be taken each time."""
        self._reserve.unlink(missing_ok=True)
        if self._limit_nbytes is not None:
            limit_pages(self._connection, self._limit_nbytes + RESERVE_NBYTES)
        try:
            yield
        finally:
            if self._limit_nbytes is not None:
                limit_pages(self._connection, self._limit_nbytes)

    def refill(self) -> None:
        """Make the reserve if it is not there, and leaves as much free again."""
        if self._reserve.exists():
            return
        try:
            if shutil.disk_usage(self._reserve.parent).free < 2 * RESERVE_NBYTES:
                return
            with self._reserve.open("wb") as file:
                for _ in range(RESERVE_NBYTES // NOISE_NBYTES):
                    file.write(os.urandom(NOISE_NBYTES))
        except OSError:
            self._reserve.unlink(missing_ok=True)
