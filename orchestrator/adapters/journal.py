"""The orchestrator's durable record: one SQLite file, synced before anything is promised.

Holds the generation, runs, their inputs' frames, the first outcome of each item with its result's
frame, what clients acknowledged, and what segments took on devices. Records are written by a
thread of its own, several with one sync, in the order they were given; each `done` is called in
that order, in that thread, once its record is on disk or was refused. Decides nothing; what a
record means is the machine's affair.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bus.vital_thread import VitalThread
from orchestrator.adapters.journal_check import check_file
from orchestrator.adapters.journal_file import OF_RUNS, damage_in, open_file
from orchestrator.adapters.journal_reader import JournalReader, Time
from orchestrator.adapters.journal_space import JournalSpace, is_full, make_room
from orchestrator.run_record import Outcome, RunRecord
from wire.errors import (
    CrowdpipeError,
    DiskFull,
    JournalDamaged,
    OperatorError,
    TimedOut,
    TooLarge,
)
from wire.record import encode

QUEUE_LIMIT = 4096  # records that wait for the disk; at the bound, or …
QUEUE_LIMIT_NBYTES = 64 << 20  # … at this many bytes, whoever adds one waits
WAIT_LIMIT_S = 60.0
BATCH_NBYTES = 16 << 20  # one sync covers at most this much, so that nobody waits long
BATCH_LIMIT = 256
FRAME_LIMIT_NBYTES = 900 << 20  # SQLite keeps no longer value
RESERVED_NBYTES = 1 << 20  # results up to this may take what is kept for a full disk
CLOSE_LIMIT_S = 60.0
QUIET_S = 1.0

_log = logging.getLogger("crowdpipe.orchestrator.journal")


Done = Callable[[CrowdpipeError | None], None]
OutcomeDone = Callable[[Outcome | None, CrowdpipeError | None], None]
GenerationDone = Callable[[int | None, CrowdpipeError | None], None]
Answer = Callable[[Any, CrowdpipeError | None], None]
Work = Callable[[sqlite3.Connection], Any]


@dataclass(frozen=True, slots=True)
class _Entry:
    """`nbytes` of frames. If `vital` it may take what is kept for a full disk."""

    what: str
    work: Work
    nbytes: int
    answer: Answer | None
    vital: bool


class Journal(JournalReader):
    """`limit_nbytes` bounds the file; beyond it, and on a full disk, records are refused with
    `DiskFull`. `died` is told if it can write nothing any more, or is found damaged. Raises
    `JournalDamaged`, or `OperatorError` if the file cannot be opened."""

    def __init__(
        self,
        path: Path,
        limit_nbytes: int | None = None,
        died: Callable[[CrowdpipeError], None] = lambda error: None,
    ) -> None:
        self._died = died
        self._failure: CrowdpipeError | None = None
        self._condition = threading.Condition()
        self._waiting: deque[_Entry] = deque()
        self._waiting_nbytes = 0
        self._closing = False
        self._together = False
        self._pause_s: float | None = QUIET_S  # after it, without a record, room is given back
        make_room(path)
        check_file(path)
        try:
            self._writer = open_file(path, limit_nbytes)
            super().__init__(path)
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and is_full(path, error):
                raise DiskFull(f"no room to open the journal {path}: make room there") from None
            raise OperatorError(f"cannot open the journal {path}: {error}") from None
        self._space = JournalSpace(path, self._writer, limit_nbytes)
        self._thread = VitalThread("journal", self._run, self._end)
        self._thread.start()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is given inside is written from its end on, with one sync as far as may be."""
        with self._condition:
            self._together = True
        try:
            yield
        finally:
            with self._condition:
                self._together = False
                if self._waiting:
                    self._condition.notify_all()

    # --- writing ------------------------------------------------------------------------------

    def raise_generation(self, above: int, done: GenerationDone) -> None:
        """Put a generation above `above` and above all before on disk."""

        def work(connection: sqlite3.Connection) -> int:
            rows = connection.execute("SELECT value FROM facts WHERE name = 'generation'")
            row = rows.fetchone()
            generation: int = max(above, row[0] if row else 0) + 1
            connection.execute("REPLACE INTO facts VALUES ('generation', ?)", (generation,))
            return generation

        self._add("the generation", work, 0, done)

    def store_run(
        self, record: RunRecord, done: Done, inputs: Sequence[tuple[int, bytes]] = ()
    ) -> None:
        """A run with the frames of its first inputs, all or nothing; what is there already stays
        as it is."""
        values = (
            record.run,
            record.party,
            record.model_name,
            record.model,
            encode(record.options),
            record.count,
            time.time(),
        )

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)", values
            )
            for item, frame in inputs:
                self._frames.store_input(connection, record.run, item, frame)

        nbytes = sum(len(frame) for _, frame in inputs)
        self._add(f"run {record.run}", work, nbytes, lambda _, error: done(error), vital=False)

    def store_input(self, run: str, item: int, frame: bytes, done: Done) -> None:
        self._add(
            f"input {run}/{item}",
            lambda c: self._frames.store_input(c, run, item, frame),
            len(frame),
            lambda _, error: done(error),
            vital=False,
        )

    def store_outcome(
        self, run: str, outcome: Outcome, frame: bytes | None, done: OutcomeDone
    ) -> None:
        """`done` gets the item's outcome on disk: this one, or the one that was there first."""

        def work(connection: sqlite3.Connection) -> Outcome:
            self._frames.store_outcome(connection, run, outcome, frame)
            rows = connection.execute(
                "SELECT item, kind, reason, acknowledged FROM outcomes WHERE run = ? AND item = ?",
                (run, outcome.item),
            )
            item, kind, reason, acknowledged = rows.fetchone()
            return Outcome(item, kind, reason, bool(acknowledged))

        what = f"outcome {run}/{outcome.item}"
        nbytes = len(frame or b"")
        self._add(what, work, nbytes, done, vital=nbytes <= RESERVED_NBYTES)

    def store_count(self, run: str, count: int) -> None:
        self._add(
            f"count of {run}",
            lambda c: c.execute("UPDATE runs SET count = ? WHERE run = ?", (count, run)),
        )

    def store_party(self, run: str, party: str, done: Done) -> None:
        query = "UPDATE runs SET party = ? WHERE run = ?"
        self._add(
            f"party of {run}",
            lambda c: c.execute(query, (party, run)),
            answer=lambda _, error: done(error),
        )

    def end_run(self, run: str, kind: str, reason: str) -> None:
        """It ended as a whole, with this error; the first one stays."""
        query = (
            "UPDATE runs SET fault_kind = ?, fault_reason = ? WHERE run = ? AND fault_kind IS NULL"
        )
        self._add(f"ending of {run}", lambda c: c.execute(query, (kind, reason, run)))

    def acknowledge(self, run: str, items: tuple[int, ...]) -> None:
        """The client has these outcomes: their frames go, that they were stays."""
        self._add(f"acknowledgement of {run}", lambda c: self._frames.acknowledge(c, run, items))

    def forget_inputs(self, run: str, items: tuple[int, ...]) -> None:
        self._add(f"inputs of {run}", lambda c: self._frames.forget_inputs(c, run, items))

    def forget_run(self, run: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            self._frames.forget_run(run)
            for table in (*OF_RUNS, "runs"):
                connection.execute(f"DELETE FROM {table} WHERE run = ?", (run,))

        self._add(f"end of {run}", work)

    def store_times(self, times: Sequence[Time]) -> None:
        """Each in the place of what was known of the same segment on the same device."""
        query = "INSERT OR REPLACE INTO times VALUES (?, ?, ?, ?, ?)"
        self._add("what segments took", lambda c: c.executemany(query, times), vital=False)

    def forget_times(self, model: str | None, device: str | None) -> None:
        query = "DELETE FROM times WHERE model = ? OR device = ?"
        self._add("what segments took", lambda c: c.execute(query, (model, device)))

    def store_death(self, run: str, item: int, device: str, boot: str) -> None:
        values = (run, item, device, boot)
        query = "INSERT OR IGNORE INTO deaths VALUES (?, ?, ?, ?)"
        self._add(f"death over {run}/{item}", lambda c: c.execute(query, values))

    def forget_death(self, run: str, item: int, device: str, boot: str) -> None:
        values = (run, item, device, boot)
        query = "DELETE FROM deaths WHERE run = ? AND item = ? AND device = ? AND boot = ?"
        self._add(f"death over {run}/{item}", lambda c: c.execute(query, values))

    def store_absence(self, device: str, seconds: float) -> None:
        query = "INSERT OR REPLACE INTO absences VALUES (?, ?)"
        what = f"absence of {device}"
        self._add(what, lambda c: c.execute(query, (device, seconds)), vital=False)

    def forget_absence(self, device: str) -> None:
        query = "DELETE FROM absences WHERE device = ?"
        self._add(f"absence of {device}", lambda c: c.execute(query, (device,)))

    def close(self) -> None:
        """Write what waits, then close. Raises `TimedOut` if the disk does not take it."""
        with self._condition:
            self._closing = True
            self._condition.notify_all()
        self._thread.join(CLOSE_LIMIT_S)
        if self._thread.is_alive():
            raise TimedOut(f"the journal was not written within {CLOSE_LIMIT_S:g} s")
        self._close_reader()
        self._writer.close()

    def _add(
        self,
        what: str,
        work: Work,
        nbytes: int = 0,
        answer: Answer | None = None,
        *,
        vital: bool = True,
    ) -> None:
        if nbytes > FRAME_LIMIT_NBYTES and answer is not None:
            answer(None, TooLarge(f"{what}: the journal keeps no {nbytes} bytes in one piece"))
            return
        with self._condition:
            if self._failure is not None:
                raise self._failure
            if not self._has_room():
                self._condition.notify_all()  # also of what is given together
            if not self._condition.wait_for(self._has_room, WAIT_LIMIT_S):
                raise TimedOut(f"waited {WAIT_LIMIT_S:g} s for the journal's disk ({self._path})")
            self._waiting.append(_Entry(what, work, nbytes, answer, vital))
            self._waiting_nbytes += nbytes
            if not self._together:
                self._condition.notify_all()

    def _has_room(self) -> bool:
        return len(self._waiting) < QUEUE_LIMIT and self._waiting_nbytes < QUEUE_LIMIT_NBYTES

    # --- the thread ---------------------------------------------------------------------------

    def _end(self, error: CrowdpipeError) -> None:
        """Nothing that waits is written any more, nor what comes."""
        with self._condition:
            self._failure = error
            self._condition.notify_all()
        self._died(error)

    def _found_damage(self, damage: CrowdpipeError) -> None:
        if self._failure is None:
            self._end(damage)

    def _run(self) -> None:
        while self._failure is None:
            with self._condition:
                pause_s = self._pause_s
                self._condition.wait_for(lambda: self._waiting or self._closing, pause_s)
                if self._closing and not self._waiting:
                    return
                batch = self._take()
                self._condition.notify_all()
            if batch:
                self._pause_s = QUIET_S
                self._write(batch)
            else:
                self._tidy()

    def _tidy(self) -> None:
        """Nobody waits for us: give back room. On a full disk there may be none for that."""
        try:
            self._pause_s = 0.0 if self._space.tidy() else None
        except sqlite3.Error as error:
            self._pause_s = QUIET_S if is_full(self._path, error) else None
            damage = damage_in(self._path, error)
            if damage is not None:
                self._found_damage(damage)

    def _take(self) -> list[_Entry]:
        batch: list[_Entry] = []
        nbytes = 0
        while self._waiting and len(batch) < BATCH_LIMIT and nbytes < BATCH_NBYTES:
            entry = self._waiting.popleft()
            nbytes += entry.nbytes
            batch.append(entry)
        self._waiting_nbytes -= nbytes
        return batch

    def _write(self, batch: list[_Entry]) -> None:
        """All with one sync; if the disk refuses that, each alone, so that what fits is kept."""
        try:
            results = self._commit(batch)
        except Exception as error:  # SQLite's, or of a value that it cannot keep
            if len(batch) > 1:
                for entry in batch:
                    self._write([entry])
                return
            self._refuse(batch[0], error)
            return
        for entry, result in zip(batch, results, strict=True):
            _tell(entry, result, None)

    def _commit(self, batch: list[_Entry]) -> list[Any]:
        if self._space.is_short and not all(entry.vital for entry in batch):
            raise DiskFull("what room there is, is for what was begun")
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            results = [entry.work(self._writer) for entry in batch]
            self._writer.execute("COMMIT")
        except BaseException:
            self._frames.clear()
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
            raise
        return results

    def _refuse(self, entry: _Entry, error: Exception) -> None:
        refusal = self._refusal(entry.what, error)
        if isinstance(refusal, DiskFull) and entry.vital:
            try:
                with self._space.reserve_open():
                    results = self._commit([entry])
            except Exception as again:
                refusal = self._refusal(entry.what, again)
            else:
                _tell(entry, results[0], None)
                return
        _log.error("%s", refusal)
        _tell(entry, None, refusal)
        if isinstance(refusal, JournalDamaged):
            self._found_damage(refusal)

    def _refusal(self, what: str, error: Exception) -> CrowdpipeError:
        said = f"the journal could not keep {what}: {error}"
        if not isinstance(error, sqlite3.Error | DiskFull):
            return OperatorError(said)
        if isinstance(error, DiskFull) or is_full(self._path, error):
            return DiskFull(f"{said}; make room for {self._path}")
        return damage_in(self._path, error) or OperatorError(said)


def _tell(entry: _Entry, result: Any, error: CrowdpipeError | None) -> None:
    if entry.answer is None:
        return
    try:
        entry.answer(result, error)
    except Exception:
        _log.exception("whoever waited for %s failed", entry.what)
