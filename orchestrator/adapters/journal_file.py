"""The journal's SQLite file: its tables, its format, and how it is opened.

What is written into it and when is `journal`'s affair.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from wire.errors import JournalDamaged, OperatorError

FORMAT = 3
BESIDE = ("", "-wal", "-shm")  # SQLite's files of one database
BUSY_LIMIT_S = 10.0
WAL_NBYTES = 4 << 20  # what was written ahead is cut to so much whenever it begins anew
MEANWHILE_STARTS = 1000  # more than anybody makes between a backup and its restore
INCREMENTAL = 2  # of `auto_vacuum`: free pages are given back when we say
SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (
    run TEXT PRIMARY KEY, party TEXT NOT NULL, model_name TEXT NOT NULL, model TEXT NOT NULL,
    options BLOB NOT NULL, count INTEGER, stored_at REAL NOT NULL,
    fault_kind TEXT, fault_reason TEXT);
CREATE TABLE IF NOT EXISTS inputs (
    run TEXT NOT NULL, item INTEGER NOT NULL, frame BLOB NOT NULL, checksum INTEGER,
    UNIQUE (run, item));
CREATE TABLE IF NOT EXISTS outcomes (
    run TEXT NOT NULL, item INTEGER NOT NULL, kind TEXT, reason TEXT NOT NULL,
    acknowledged INTEGER NOT NULL DEFAULT 0, frame BLOB, checksum INTEGER, UNIQUE (run, item));
CREATE TABLE IF NOT EXISTS deaths (
    run TEXT NOT NULL, item INTEGER NOT NULL, device TEXT NOT NULL, boot TEXT NOT NULL,
    PRIMARY KEY (run, item, device, boot)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS times (
    model TEXT NOT NULL, exact INTEGER NOT NULL, device TEXT NOT NULL, segment INTEGER NOT NULL,
    seconds REAL NOT NULL, PRIMARY KEY (model, exact, device, segment)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS absences (device TEXT PRIMARY KEY, seconds REAL NOT NULL) WITHOUT ROWID;
"""
"""`checksum`: CRC-32 of the frame; NULL where an earlier format stored it without."""
OF_RUNS = ("inputs", "outcomes", "deaths")  # what is about a run, and goes with it
UPGRADES = {
    1: "ALTER TABLE runs ADD COLUMN fault_kind TEXT; "
    "ALTER TABLE runs ADD COLUMN fault_reason TEXT;",
    2: "ALTER TABLE inputs ADD COLUMN checksum INTEGER; "
    "ALTER TABLE outcomes ADD COLUMN checksum INTEGER;",
}
"""What brings a file of an earlier format to the next one."""
DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
UNREADABLE = frozenset(
    {
        sqlite3.SQLITE_IOERR_READ,
        sqlite3.SQLITE_IOERR_SHORT_READ,
        sqlite3.SQLITE_IOERR_CORRUPTFS,
        sqlite3.SQLITE_IOERR_DATA,
    }
)


def damage_in(path: Path, error: sqlite3.Error) -> JournalDamaged | None:
    """The error as one of the file's content; None if it is one of the disk, or of what was asked
    for: then the file may be as good as it was."""
    code = getattr(error, "sqlite_errorcode", 0)
    damaged = code & 0xFF in DAMAGE or code in UNREADABLE
    return JournalDamaged.of(path, str(error)) if damaged else None


def open_file(path: Path, limit_nbytes: int | None) -> sqlite3.Connection:
    """A connection that writes; the file is made or brought to this format if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = connect(path)
    if not _can_shrink(connection):  # of a file that is made now; to set it again would write
        connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA journal_size_limit={WAL_NBYTES}")
    _upgrade(connection)
    limit_pages(connection, limit_nbytes)
    for table in OF_RUNS:  # a run forgotten while one of its records waited
        connection.execute(f"DELETE FROM {table} WHERE run NOT IN (SELECT run FROM runs)")
    return connection


def limit_pages(connection: sqlite3.Connection, limit_nbytes: int | None) -> None:
    """Beyond so many bytes the file is full; None lifts the limit that was."""
    page_nbytes = connection.execute("PRAGMA page_size").fetchone()[0]
    pages = (1 << 32) - 2 if limit_nbytes is None else max(1, limit_nbytes // page_nbytes)
    connection.execute(f"PRAGMA max_page_count={pages}")


def _upgrade(connection: sqlite3.Connection) -> None:
    """Writes nothing if there is nothing to change: a full disk takes not even the same again."""
    known: int = connection.execute("PRAGMA user_version").fetchone()[0]
    while known in UPGRADES:
        after = known + 1
        connection.executescript(f"BEGIN; {UPGRADES[known]} PRAGMA user_version={after}; COMMIT")
        known = after
    wanted = sum(line.startswith("CREATE TABLE") for line in SCHEMA.splitlines())
    tables = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'")
    if tables.fetchone()[0] != wanted:
        connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version={FORMAT}; COMMIT")
    if not _can_shrink(connection):
        _lay_out_anew(connection)


def _can_shrink(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("PRAGMA auto_vacuum").fetchone()[0] == INCREMENTAL)


def _lay_out_anew(connection: sqlite3.Connection) -> None:
    """So that it can shrink. Needs as much room again, and SQLite allows it only outside of the
    write-ahead log; without room it stays as it is until the next start."""
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute(f"PRAGMA auto_vacuum={INCREMENTAL}")
        connection.execute("VACUUM")
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_FULL:
            raise
    finally:
        connection.execute("PRAGMA journal_mode=WAL")


def outgrow(path: Path) -> None:
    """Of a copy that takes its original's place: raise its generation above all that the original
    had meanwhile, so that devices do not take it for that. Raises `OperatorError`."""
    query = "UPDATE facts SET value = value + ? WHERE name = 'generation'"
    try:
        with closing(connect(path)) as connection:
            connection.execute(query, (MEANWHILE_STARTS,))
    except sqlite3.Error as error:
        raise OperatorError(f"cannot write the journal {path}: {error}") from None


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Transactions are ours (`isolation_level` None); each connection has one user at a time."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}",
        timeout=BUSY_LIMIT_S,
        isolation_level=None,
        check_same_thread=False,
        uri=True,
    )
