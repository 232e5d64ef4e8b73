"""What is read of frames that were just written is what is on disk."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.adapters.journal import Journal
from orchestrator.adapters.journal_frames import JournalFrames
from orchestrator.run_record import Outcome, RunRecord
from wire.messages.requests import RunOptions

LIMIT_S = 10.0


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    opened.store_run(RunRecord("r", "c", "m", "0" * 64, RunOptions(), 9), lambda error: None)
    yield opened
    opened.close()


def settled(journal: Journal) -> None:
    """All that was asked of it so far is on disk."""
    done = threading.Event()
    journal.raise_generation(0, lambda value, error: done.set())
    assert done.wait(LIMIT_S)


def on_disk(tmp_path: Path, table: str, item: int) -> bytes | None:
    """Read by another connection."""
    other = sqlite3.connect(tmp_path / "journal.sqlite")
    try:
        query = f"SELECT frame FROM {table} WHERE run = 'r' AND item = ?"
        row = other.execute(query, (item,)).fetchone()
    finally:
        other.close()
    return None if row is None else row[0]


def test_a_frame_that_was_just_stored_is_read_as_it_is_on_disk(
    journal: Journal, tmp_path: Path
) -> None:
    journal.store_input("r", 0, b"first", lambda error: None)
    journal.store_input("r", 0, b"second", lambda error: None)
    journal.store_outcome("r", Outcome(0, "", ""), b"result", lambda outcome, error: None)
    journal.store_outcome("r", Outcome(0, "", ""), b"another", lambda outcome, error: None)
    settled(journal)
    assert journal.input_frame("r", 0) == on_disk(tmp_path, "inputs", 0) == b"first"
    assert journal.input_nbytes("r", 0) == 5
    assert journal.result_frame("r", 0) == on_disk(tmp_path, "outcomes", 0) == b"result"
    assert journal.result_nbytes("r", 0) == 6


def test_what_was_let_go_is_gone_at_once(journal: Journal) -> None:
    for item in range(3):
        journal.store_input("r", item, b"x", lambda error: None)
        journal.store_outcome("r", Outcome(item, "", ""), b"y", lambda outcome, error: None)
    journal.forget_inputs("r", (0, 1))
    journal.acknowledge("r", (1, 2))
    settled(journal)
    assert [journal.input_frame("r", item) for item in range(3)] == [None, None, b"x"]
    assert [journal.result_nbytes("r", item) for item in range(3)] == [1, None, None]
    journal.forget_run("r")
    settled(journal)
    assert journal.input_frame("r", 2) is None
    assert journal.result_frame("r", 0) is None


def test_frames_beyond_the_memory_are_read_from_disk(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE inputs (run, item, frame, checksum, PRIMARY KEY (run, item))")
    frames = JournalFrames(recent_nbytes=10)
    for item, nbytes in enumerate((4, 4, 4, 11)):
        frames.store_input(connection, "r", item, bytes(nbytes))
    kept = [frames.recent("inputs", "r", item) for item in range(4)]
    assert kept == [None, bytes(4), bytes(4), None]


def test_a_write_that_was_undone_is_not_remembered(journal: Journal) -> None:
    refused: list[object] = []
    record = RunRecord("q", "c", "m", "0" * 64, RunOptions(), 9)
    beyond = 1 << 70  # SQLite keeps no such number
    journal.store_run(record, refused.append, [(0, b"x"), (beyond, b"y")])
    settled(journal)
    assert refused[0] is not None
    assert journal.input_frame("q", 0) is None


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "forget", "run"]), st.integers(0, 3), st.integers(0, 6))
    )
)
def test_memory_never_has_more_than_its_bound_nor_loses_count(
    steps: list[tuple[str, int, int]],
) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE inputs (run, item, frame, checksum)")
    frames, limit = JournalFrames(recent_nbytes=12), 12
    for step, run, item in steps:
        if step == "put":
            frames.store_input(connection, str(run), item, bytes(item))
        elif step == "forget":
            frames.forget_inputs(connection, str(run), (item,))
        else:
            frames.forget_run(str(run))
        kept = [frames.recent("inputs", str(r), i) for r in range(4) for i in range(7)]
        assert sum(map(len, filter(None, kept))) <= limit
    for run in range(4):
        frames.forget_run(str(run))
    assert frames._nbytes == 0
    assert not frames._of_run
