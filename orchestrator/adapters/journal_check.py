"""Whether the journal's file is whole: looked at once, before anything in it is believed.

SQLite itself notices damage only where it happens to read. And of what was written ahead it
silently leaves out everything behind the first page that is damaged, which here would be runs and
results that a client was promised. Damaged is only what was read and is wrong: a file that may not
be read, or that the disk does not give, may be as good as it was, and stays where it is.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.adapters.journal_file import (
    BESIDE,
    FORMAT,
    SCHEMA,
    UPGRADES,
    connect,
    damage_in,
)
from wire.errors import CrowdpipeError, JournalDamaged, OperatorError
from wire.messages.requests import RunOptions
from wire.record import decode

WAL_HEADER = struct.Struct(">8I")  # magic, version, page size, number, salts, checksum
WAL_FRAME = struct.Struct(">6I")  # page, pages after a commit (else 0), salts, checksum
WAL_INDEX = struct.Struct("=16xI")  # pages that count
WAL_MAGIC = (0x377F0682, 0x377F0683)


def check_file(path: Path) -> None:
    """Raises `JournalDamaged`, which says what is wrong; nothing if there is no file yet. Raises
    `OperatorError` if the disk or the file's rights keep us from looking."""
    try:
        for end in BESIDE:
            _check_rights(path.with_name(path.name + end))
        _look(path)
    except OSError as error:
        raise OperatorError(
            f"cannot read the journal {path}: {error.strerror or error}; it is left as it is"
        ) from None


def _check_rights(file: Path) -> None:
    if file.is_file() and not os.access(file, os.R_OK | os.W_OK):
        raise OperatorError(
            f"the journal's file {file} may not be read and written by the user that runs this; "
            "let it (`chown`, `chmod u+rw`, or a disk that is not mounted read-only) and start "
            "again: it is left as it is"
        )


def _look(path: Path) -> None:
    ahead = _Ahead.read(path)
    if not path.exists():
        if ahead is not None:
            raise JournalDamaged.of(path, "only what was written to it last is there")
        return
    if path.is_dir():
        raise JournalDamaged.of(path, "it is a folder")
    if path.stat().st_size == 0:
        raise JournalDamaged.of(path, "it is empty")
    try:
        connection = connect(path, read_only=True)  # what is damaged stays as it was found
        try:
            _check(path, connection, ahead)
        finally:
            connection.close()
    except sqlite3.Error as error:
        damage = damage_in(path, error)
        raise damage or OperatorError(f"cannot open the journal {path}: {error}") from None


def _check(path: Path, connection: sqlite3.Connection, ahead: _Ahead | None) -> None:
    found = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if found != "ok":
        said = str(found).replace("*** in database main ***", "")
        raise JournalDamaged.of(path, f"SQLite says: {' '.join(said.split())}")
    if ahead is not None and ahead.lost(_pages_read(path)):
        raise JournalDamaged.of(path, "what was written to it last is damaged")
    known = connection.execute("PRAGMA user_version").fetchone()[0]
    names = _columns(connection)
    if known == 0 and not names:
        return  # a first start that ended at once
    if known not in (*UPGRADES, FORMAT):
        raise JournalDamaged.of(path, f"it has format {known}, this program writes {FORMAT}")
    _check_columns(path, known, names)
    _check_rows(path, connection, checksums=known >= FORMAT)


def _pages_read(path: Path) -> int:
    """How much of what was written ahead SQLite took in, as it notes it beside the file."""
    index = path.with_name(f"{path.name}-shm")
    return int(WAL_INDEX.unpack(index.read_bytes()[: WAL_INDEX.size])[0])


def _check_columns(path: Path, known: int, names: dict[str, frozenset[str]]) -> None:
    """Those of this format; a file of an earlier one has some less."""
    with sqlite3.connect(":memory:") as ours:
        ours.executescript(SCHEMA)
        wanted = _columns(ours)
    ours.close()
    right = names == wanted if known == FORMAT else names.keys() <= wanted.keys()
    if not right or "runs" not in names:
        raise JournalDamaged.of(path, "its tables are not those of a journal")


def _columns(connection: sqlite3.Connection) -> dict[str, frozenset[str]]:
    rows = connection.execute(
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c "
        "WHERE t.type = 'table'"
    ).fetchall()
    return {table: frozenset(column for of, column in rows if of == table) for table, _ in rows}


def _check_rows(path: Path, connection: sqlite3.Connection, *, checksums: bool) -> None:
    for run, options in connection.execute("SELECT run, options FROM runs"):
        try:
            decode(RunOptions, options)
        except (CrowdpipeError, TypeError):
            raise JournalDamaged.of(path, f"what it says of run {run} cannot be read") from None
    for table in ("inputs", "outcomes") if checksums else ():
        _check_frames(path, connection.execute(f"SELECT run, item, frame, checksum FROM {table}"))


def _check_frames(path: Path, rows: Any) -> None:
    for run, item, frame, checksum in rows:
        if checksum is not None and (frame is None or zlib.crc32(frame) != checksum):
            raise JournalDamaged.of(path, f"the bytes of {run}/{item} are not what it kept")


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What was written ahead and is not in the file yet: of each page its salts, and whether a
    commit ends with it. Read before SQLite takes it in."""

    salts: tuple[int, int] | None  # None: the header is damaged
    frames: tuple[tuple[tuple[int, int], bool], ...]

    @classmethod
    def read(cls, path: Path) -> _Ahead | None:
        wal = path.with_name(f"{path.name}-wal")
        if not wal.exists() or wal.stat().st_size < WAL_HEADER.size + WAL_FRAME.size:
            return None
        with wal.open("rb") as file:
            header = file.read(WAL_HEADER.size)
            if not any(header):
                return None  # the computer lost its power before anything was promised
            magic, _, page_nbytes, _, *salts, first, second = WAL_HEADER.unpack(header)
            if magic not in WAL_MAGIC or _checksum(magic, header[:24]) != (first, second):
                return cls(None, ())
            frames = []
            while len(head := file.read(WAL_FRAME.size)) == WAL_FRAME.size:
                _, pages, *salt, _, _ = WAL_FRAME.unpack(head)
                frames.append(((salt[0], salt[1]), pages != 0))
                file.seek(page_nbytes, os.SEEK_CUR)
        return cls((salts[0], salts[1]), tuple(frames))

    def lost(self, read: int) -> bool:
        """Whether SQLite took in `read` pages only, and there were commits behind them. One may be
        what the computer was at when its power went; before a second one began, the first was
        synced, and promised."""
        if self.salts is None:
            return True
        behind = self.frames[max(0, read) :]
        return sum(commit for salts, commit in behind if salts == self.salts) > 1


def _checksum(magic: int, data: bytes) -> tuple[int, int]:
    """SQLite's, over an even number of words."""
    words = struct.unpack(f"{'>' if magic & 1 else '<'}{len(data) // 4}I", data)
    first = second = 0
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & 0xFFFFFFFF
        second = (second + words[at + 1] + first) & 0xFFFFFFFF
    return first, second
