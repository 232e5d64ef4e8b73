"""What the journal has, as records: read by any thread, written by none of these. What was just
written is read from memory, all else from the file."""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import Any

from orchestrator.adapters.journal_file import connect, damage_in
from orchestrator.adapters.journal_frames import JournalFrames, Table
from orchestrator.run_record import Outcome, StoredRun
from wire.errors import CrowdpipeError, JournalDamaged, OperatorError
from wire.messages.requests import RunOptions
from wire.record import decode

Time = tuple[str, bool, str, int, float]  # model, exact, device, segment, seconds


class JournalReader:
    """Reads raise `OperatorError` if the disk does not give the file, and `JournalDamaged` if what
    is in it cannot be right."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = threading.Lock()
        self._frames = JournalFrames()
        self._reader = connect(path)

    @property
    def generation(self) -> int:
        """The highest on disk; 0 before the first."""
        row = self._one("SELECT value FROM facts WHERE name = 'generation'", ())
        return int(row[0]) if row else 0

    def replay(self) -> tuple[StoredRun, ...]:
        """Every run on disk, the oldest first."""
        rows = self._all(
            "SELECT run, party, model_name, model, options, count, stored_at, fault_kind, "
            "fault_reason FROM runs ORDER BY rowid",
            (),
        )
        return tuple(self._replayed(*row) for row in rows)

    def times(self) -> tuple[Time, ...]:
        """What segments took on devices."""
        rows = self._all("SELECT model, exact, device, segment, seconds FROM times", ())
        return tuple((row[0], bool(row[1]), row[2], row[3], row[4]) for row in rows)

    def absences(self) -> tuple[tuple[str, float], ...]:
        """For how many seconds devices that are away were not heard of."""
        rows = self._all("SELECT device, seconds FROM absences", ())
        return tuple((row[0], row[1]) for row in rows)

    def input_frame(self, run: str, item: int) -> bytes | None:
        """The stored frame of an input; None if it was forgotten."""
        return self._frame("inputs", run, item)

    def result_frame(self, run: str, item: int) -> bytes | None:
        """The stored frame of a result; None if it was acknowledged or was an error."""
        return self._frame("outcomes", run, item)

    def input_nbytes(self, run: str, item: int) -> int | None:
        """Length of an input's frame; None if it was forgotten."""
        return self._nbytes("inputs", run, item)

    def result_nbytes(self, run: str, item: int) -> int | None:
        """Length of a result's frame; None if it was acknowledged or was an error."""
        return self._nbytes("outcomes", run, item)

    def _nbytes(self, table: Table, run: str, item: int) -> int | None:
        recent = self._frames.recent(table, run, item)
        if recent is not None:
            return len(recent)
        query = f"SELECT length(frame) FROM {table} WHERE run = ? AND item = ?"
        row = self._one(query, (run, item))
        return row[0] if row else None

    def _frame(self, table: Table, run: str, item: int) -> bytes | None:
        recent = self._frames.recent(table, run, item)
        if recent is not None:
            return recent
        query = f"SELECT frame, checksum FROM {table} WHERE run = ? AND item = ?"
        row = self._one(query, (run, item))
        if row is None or row[0] is None:
            return None
        frame: bytes = row[0]
        if row[1] is not None and row[1] != zlib.crc32(frame):
            damage = JournalDamaged.of(
                self._path, f"the bytes of {run}/{item} are not what it kept"
            )
            self._found_damage(damage)
            raise damage
        return frame

    def _replayed(
        self,
        run: str,
        party: str,
        model_name: str,
        model: str,
        options: bytes,
        count: int | None,
        stored_at: float,
        fault_kind: str | None,
        fault_reason: str | None,
    ) -> StoredRun:
        inputs = self._all("SELECT item FROM inputs WHERE run = ? ORDER BY item", (run,))
        rows = self._all(
            "SELECT item, kind, reason, acknowledged FROM outcomes WHERE run = ? ORDER BY item",
            (run,),
        )
        deaths = self._all("SELECT item, device, boot FROM deaths WHERE run = ?", (run,))
        outcomes = tuple(Outcome(row[0], row[1], row[2], bool(row[3])) for row in rows)
        return StoredRun(
            run=run,
            party=party,
            model_name=model_name,
            model=model,
            options=decode(RunOptions, options),
            count=count,
            inputs=tuple(row[0] for row in inputs),
            outcomes=outcomes,
            age_s=max(0.0, time.time() - stored_at),
            fault=None if fault_kind is None else (fault_kind, fault_reason or ""),
            deaths=tuple((row[0], row[1], row[2]) for row in deaths),
        )

    def _one(self, query: str, values: tuple[Any, ...]) -> Any:
        return next(iter(self._all(query, values)), None)

    def _all(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            with self._reading:
                return self._reader.execute(query, values).fetchall()
        except sqlite3.Error as error:
            damage = damage_in(self._path, error)
            if damage is None:
                raise OperatorError(f"cannot read the journal {self._path}: {error}") from None
            self._found_damage(damage)
            raise damage from None

    def _found_damage(self, damage: CrowdpipeError) -> None:
        """Told before it is raised: whoever reads may think that it is an affair of one frame."""

    def _close_reader(self) -> None:
        with self._reading:
            self._reader.close()
