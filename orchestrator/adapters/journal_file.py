"""The journal's SQLite file: its tables, its format, and how it is opened.

What is written into it and when is `journal`'s affair.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from wire.errors import OperatorError

FORMAT = 2
BUSY_LIMIT_S = 10.0
MENDING = "check the disk, or move the file away to begin anew without the runs in it"
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, party TEXT NOT NULL, model_name TEXT NOT NULL, model TEXT NOT NULL,
    options BLOB NOT NULL, count INTEGER, stored_at REAL NOT NULL,
    fault_kind TEXT, fault_reason TEXT);
CREATE TABLE IF NOT EXISTS inputs (
    run TEXT NOT NULL, item INTEGER NOT NULL, frame BLOB NOT NULL, UNIQUE (run, item));
CREATE TABLE IF NOT EXISTS outcomes (
    run TEXT NOT NULL, item INTEGER NOT NULL, kind TEXT, reason TEXT NOT NULL,
    acknowledged INTEGER NOT NULL DEFAULT 0, frame BLOB, UNIQUE (run, item));
CREATE TABLE IF NOT EXISTS times (
    model TEXT NOT NULL, exact INTEGER NOT NULL, device TEXT NOT NULL, segment INTEGER NOT NULL,
    seconds REAL NOT NULL, PRIMARY KEY (model, exact, device, segment)) WITHOUT ROWID;
"""
UPGRADES = {
    1: "ALTER TABLE runs ADD COLUMN fault_kind TEXT; ALTER TABLE runs ADD COLUMN fault_reason TEXT;"
}
"""What brings a file of an earlier format to the next one."""


def open_file(path: Path, limit_nbytes: int | None) -> sqlite3.Connection:
    """A connection that writes; the file is made or brought to this format if need be.

    Raises `OperatorError` for a format that this program does not know.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    known = _upgraded(connection)
    if known not in (0, FORMAT):
        raise OperatorError(
            f"the journal {path} has format {known}, this program writes {FORMAT}; "
            "use the program that wrote it, or another home folder"
        )
    connection.executescript(SCHEMA)
    connection.execute(f"PRAGMA user_version={FORMAT}")
    if limit_nbytes is not None:
        page_nbytes = connection.execute("PRAGMA page_size").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={max(1, limit_nbytes // page_nbytes)}")
    for table in ("inputs", "outcomes"):  # a run forgotten while one of its records waited
        connection.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT run FROM runs)")
    return connection


def _upgraded(connection: sqlite3.Connection) -> int:
    """The file's format, once it is as new as it can be; 0 if the file is."""
    known: int = connection.execute("PRAGMA user_version").fetchone()[0]
    while known in UPGRADES:
        after = known + 1
        connection.executescript(f"BEGIN; {UPGRADES[known]} PRAGMA user_version={after}; COMMIT")
        known = after
    return known


def connect(path: Path) -> sqlite3.Connection:
    """Transactions are ours (`isolation_level` None); each connection has one user at a time."""
    return sqlite3.connect(
        path, timeout=BUSY_LIMIT_S, isolation_level=None, check_same_thread=False
    )
