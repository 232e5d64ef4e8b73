"""The frames in the journal's tables, and the newest of them in memory as well.

An input is stored and then sent to the first device, a result to its client, both within
milliseconds; SQLite gives each back for two queries. The memory has what is in the tables and
nothing else, from when it is written: each row is written and deleted here, in the one thread
that writes, and whoever undoes that clears it.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Sequence
from typing import Literal

from orchestrator.run_record import Outcome

RECENT_NBYTES = 16 << 20

Table = Literal["inputs", "outcomes"]
Key = tuple[str, str, int]  # table, run, item


class JournalFrames:
    """The newest frames, `recent_nbytes` of them in memory. `recent` may be asked by any thread."""

    def __init__(self, recent_nbytes: int = RECENT_NBYTES) -> None:
        self._limit_nbytes = recent_nbytes
        self._guard = threading.Lock()
        self._frames: dict[Key, bytes] = {}
        self._of_run: dict[str, set[Key]] = {}
        self._nbytes = 0

    def recent(self, table: Table, run: str, item: int) -> bytes | None:
        """None says nothing of what is on disk."""
        with self._guard:
            return self._frames.get((table, run, item))

    # --- the thread that writes ---------------------------------------------------------------

    def store_input(self, into: sqlite3.Connection, run: str, item: int, frame: bytes) -> None:
        """What was there first stays."""
        values = (run, item, frame, zlib.crc32(frame))
        made = into.execute("INSERT OR IGNORE INTO inputs VALUES (?, ?, ?, ?)", values)
        if made.rowcount:
            self._remember(("inputs", run, item), frame)

    def store_outcome(
        self, into: sqlite3.Connection, run: str, outcome: Outcome, frame: bytes | None
    ) -> None:
        """What was there first stays."""
        checksum = None if frame is None else zlib.crc32(frame)
        made = into.execute(
            "INSERT OR IGNORE INTO outcomes VALUES (?, ?, ?, ?, 0, ?, ?)",
            (run, outcome.item, outcome.kind, outcome.reason, frame, checksum),
        )
        if made.rowcount and frame is not None:
            self._remember(("outcomes", run, outcome.item), frame)

    def acknowledge(self, within: sqlite3.Connection, run: str, items: Sequence[int]) -> None:
        """The frames go; that there were outcomes stays."""
        self._forget("outcomes", run, items)
        within.executemany(
            "UPDATE outcomes SET acknowledged = 1, frame = NULL, checksum = NULL "
            "WHERE run = ? AND item = ?",
            [(run, item) for item in items],
        )

    def forget_inputs(self, within: sqlite3.Connection, run: str, items: Sequence[int]) -> None:
        self._forget("inputs", run, items)
        query = "DELETE FROM inputs WHERE run = ? AND item = ?"
        within.executemany(query, [(run, item) for item in items])

    def forget_run(self, run: str) -> None:
        """Its rows are deleted with the rest of the run."""
        with self._guard:
            for key in tuple(self._of_run.get(run, ())):
                self._drop(key)

    def clear(self) -> None:
        """Nobody knows what of it is on disk."""
        with self._guard:
            self._frames.clear()
            self._of_run.clear()
            self._nbytes = 0

    # --- memory -------------------------------------------------------------------------------

    def _remember(self, key: Key, frame: bytes) -> None:
        """One that alone is over the limit is not kept."""
        with self._guard:
            self._drop(key)
            if len(frame) > self._limit_nbytes:
                return
            self._frames[key] = frame
            self._of_run.setdefault(key[1], set()).add(key)
            self._nbytes += len(frame)
            while self._nbytes > self._limit_nbytes:
                self._drop(next(iter(self._frames)))

    def _forget(self, table: Table, run: str, items: Sequence[int]) -> None:
        with self._guard:
            for item in items:
                self._drop((table, run, item))

    def _drop(self, key: Key) -> None:
        frame = self._frames.pop(key, None)
        if frame is None:
            return
        self._nbytes -= len(frame)
        keys = self._of_run[key[1]]
        keys.discard(key)
        if not keys:
            del self._of_run[key[1]]
