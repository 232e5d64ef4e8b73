"""The journal gives room back when nobody waits, and what must be kept fits on a full disk."""

from __future__ import annotations

import queue
import shutil
import sqlite3
import time
import zlib
from pathlib import Path

import pytest

from orchestrator.adapters.journal import Journal
from orchestrator.adapters.journal_file import WAL_NBYTES, open_file
from orchestrator.adapters.journal_space import FREE_PAGES, RESERVE_NBYTES
from orchestrator.run_record import Outcome, RunRecord
from wire.errors import DiskFull
from wire.messages.requests import RunOptions

LIMIT_S = 30.0
FRAME = bytes(50_000)
PAGE_NBYTES = 4096


def run_of(name: str) -> RunRecord:
    return RunRecord(name, "clients/me/s1", "tiny", "ab" * 32, RunOptions(), 20)


def wait_for(journal: Journal) -> None:
    done: queue.Queue[object] = queue.Queue()
    journal.raise_generation(0, lambda *said: done.put(said))
    done.get(timeout=LIMIT_S)


def shrunk_to(path: Path, nbytes: int) -> bool:
    """Whether the file is no longer than that before the limit passes."""
    deadline = time.monotonic() + LIMIT_S
    while path.stat().st_size > nbytes:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_the_file_shrinks_once_its_runs_are_forgotten(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    inputs = [(item, FRAME) for item in range(20)]
    for number in range(20):
        journal.store_run(run_of(f"r{number}"), lambda _: None, inputs)
    wait_for(journal)
    assert shrunk_to(path.with_name("journal.sqlite-wal"), 0)
    assert path.stat().st_size > 20 * 20 * len(FRAME)
    for number in range(20):
        journal.forget_run(f"r{number}")
    assert shrunk_to(path, (FREE_PAGES + 64) * PAGE_NBYTES)
    assert shrunk_to(path.with_name("journal.sqlite-wal"), 0)
    journal.close()


def test_what_is_written_ahead_is_bounded_while_nobody_pauses(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path)
    most = 0
    for number in range(60):
        journal.store_run(run_of(f"r{number}"), lambda _: None, [(0, FRAME), (1, FRAME)])
        journal.forget_run(f"r{number}")
        wait_for(journal)
        most = max(most, path.with_name("journal.sqlite-wal").stat().st_size)
    assert most <= 2 * WAL_NBYTES
    journal.close()


def test_a_file_of_before_that_could_not_shrink_is_laid_out_anew(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")
    connection.close()
    for _ in range(2):
        Journal(path).close()
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()


def test_beyond_its_limit_new_frames_are_refused_and_errors_are_kept(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    journal = Journal(path, limit_nbytes=1 << 20)
    said: queue.Queue[tuple[object, object]] = queue.Queue()
    journal.store_run(run_of("r1"), lambda _: None)
    for item in range(40):
        journal.store_input("r1", item, FRAME, lambda error: said.put(("input", error)))
    answers = [said.get(timeout=LIMIT_S)[1] for _ in range(40)]
    refused = [item for item, error in enumerate(answers) if error is not None]
    assert refused
    assert all(isinstance(answers[item], DiskFull) for item in refused)
    for item in range(400):
        outcome = Outcome(item, "disk_full", "no room for its input; " + "x" * 1000)
        journal.store_outcome("r1", outcome, None, lambda *got: said.put(got))
    assert all(said.get(timeout=LIMIT_S)[1] is None for _ in range(400))
    journal.store_run(run_of("r2"), lambda error: said.put(("run", error)), [(0, FRAME)])
    assert isinstance(said.get(timeout=LIMIT_S)[1], DiskFull)
    journal.forget_run("r1")
    journal.store_run(run_of("r2"), lambda error: said.put(("run", error)), [(0, FRAME)])
    assert said.get(timeout=LIMIT_S) == ("run", None)
    journal.close()


def test_room_is_kept_beside_it_for_a_full_disk(tmp_path: Path):
    journal = Journal(tmp_path / "journal.sqlite")
    assert (tmp_path / "journal.reserve").stat().st_size == RESERVE_NBYTES
    journal.close()


def test_the_room_is_kept_also_on_a_disk_that_compresses(tmp_path: Path):
    Journal(tmp_path / "journal.sqlite").close()
    kept = (tmp_path / "journal.reserve").read_bytes()
    assert len(zlib.compress(kept, level=1)) >= RESERVE_NBYTES


def test_opening_it_again_changes_nothing(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    connection = open_file(path, None)
    assert connection.total_changes == 0
    assert connection.execute("PRAGMA wal_checkpoint").fetchone()[1] == 0
    connection.close()


def test_on_a_full_disk_it_gives_up_its_reserve_to_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    full = shutil.disk_usage(tmp_path)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    Journal(path).close()
    assert not (tmp_path / "journal.reserve").exists()


def test_what_is_left_of_a_full_disk_is_for_what_was_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    journal = Journal(tmp_path / "journal.sqlite")
    said: queue.Queue[tuple[str, object]] = queue.Queue()
    journal.store_run(run_of("r1"), lambda error: said.put(("run", error)), [(0, FRAME)])
    assert said.get(timeout=LIMIT_S) == ("run", None)
    (tmp_path / "journal.reserve").unlink()
    almost_full = shutil.disk_usage(tmp_path)._replace(free=RESERVE_NBYTES - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: almost_full)
    journal.store_input("r1", 1, FRAME, lambda error: said.put(("input", error)))
    journal.store_outcome("r1", Outcome(0), FRAME, lambda _, error: said.put(("result", error)))
    journal.forget_inputs("r1", (0,))
    journal.store_run(run_of("r2"), lambda error: said.put(("run", error)))
    answers = [said.get(timeout=LIMIT_S) for _ in range(3)]
    assert [what for what, _ in answers] == ["input", "result", "run"]
    assert [isinstance(error, DiskFull) for _, error in answers] == [True, False, True]
    monkeypatch.undo()
    journal.store_run(run_of("r2"), lambda error: said.put(("run", error)))
    assert said.get(timeout=LIMIT_S) == ("run", None)
    journal.close()
