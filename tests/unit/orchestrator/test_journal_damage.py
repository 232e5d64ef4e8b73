"""A journal that cannot be believed is found at the start, kept aside as it is, and said; one that
is damaged while it is used says what to do, and takes nothing more."""

from __future__ import annotations

import errno
import os
import queue
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.adapters.journal import Journal
from orchestrator.adapters.journal_aside import open_journal, set_aside
from orchestrator.adapters.journal_file import BESIDE, FORMAT
from orchestrator.run_record import Outcome, RunRecord
from wire.errors import CrowdpipeError, JournalDamaged, OperatorError
from wire.messages.requests import RunOptions

LIMIT_S = 20.0
RUN = RunRecord("r1", "clients/me/s1", "tiny", "ab" * 32, RunOptions(), 100)
FRAME = bytes(range(256)) * 40
MARK = b"here is the frame of an input"


def nobody(_error: object) -> None:
    """What ends is looked at otherwise."""


def wait_for(journal: Journal) -> None:
    """Until all that was asked of it is on disk."""
    done: queue.Queue[object] = queue.Queue()
    journal.raise_generation(0, lambda *said: done.put(said))
    done.get(timeout=LIMIT_S)


def fill(journal: Journal) -> None:
    journal.store_run(RUN, nobody)
    for item in range(60):
        journal.store_input("r1", item, MARK + FRAME, nobody)
    journal.store_outcome("r1", Outcome(0), MARK + FRAME, lambda *_: None)
    wait_for(journal)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal that was closed in order."""
    path = tmp_path / "home" / "journal.sqlite"
    journal = Journal(path)
    fill(journal)
    journal.close()
    return path


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A journal as a kill leaves it: much of it was written ahead, and is not in the file."""
    running = tmp_path / "running" / "journal.sqlite"
    journal = Journal(running)
    fill(journal)
    for number in range(5):
        wait_for(journal)
        journal.store_input("r1", 60 + number, MARK + FRAME, nobody)
    wait_for(journal)
    shutil.copytree(running.parent, tmp_path / "killed")
    journal.close()
    (tmp_path / "killed" / "journal.sqlite-shm").unlink()  # no memory outlives a computer
    return tmp_path / "killed" / "journal.sqlite"


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble_header(path: Path) -> None:
    change(path, 0, b"\xa5" * 100)


def flip_page(path: Path) -> None:
    change(path, path.stat().st_size // 8192 * 4096, bytes(255 - byte for byte in range(256)) * 16)


def flip_bit_of_a_frame(path: Path) -> None:
    at = path.read_bytes().index(MARK)
    change(path, at + 5, b"\x00")


def come_from_a_newer_program(path: Path) -> None:
    execute(path, "ALTER TABLE runs ADD COLUMN novelty TEXT", f"PRAGMA user_version={FORMAT + 1}")


def lose_a_table(path: Path) -> None:
    execute(path, "DROP TABLE inputs")


def lose_a_column(path: Path) -> None:
    execute(path, "ALTER TABLE runs DROP COLUMN fault_kind")


def garble_options(path: Path) -> None:
    execute(path, "UPDATE runs SET options = x'00ff'")


def execute(path: Path, *lines: str) -> None:
    with sqlite3.connect(path) as connection:
        for line in lines:
            connection.execute(line)
    connection.close()


def read_frames(journal: Journal) -> None:
    for item in range(60):
        journal.input_frame("r1", item)
        journal.result_frame("r1", item)


def change(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


DAMAGES = (
    truncate,
    empty,
    garble_header,
    flip_page,
    flip_bit_of_a_frame,
    come_from_a_newer_program,
    lose_a_table,
    lose_a_column,
    garble_options,
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_kept_aside_as_it_is_and_said_and_a_new_one_begun(
    path: Path, damage: Callable[[Path], None]
):
    damage(path)
    found = path.read_bytes()
    journal, said = open_journal(path, None, nobody)
    (kept,) = path.parent.glob("journal-damaged-*.sqlite")
    assert kept.read_bytes() == found
    assert said is not None
    assert str(kept) in said
    assert journal.replay() == ()
    assert journal.generation == 0
    fill(journal)
    journal.close()
    again, said = open_journal(path, None, nobody)
    assert said is None
    assert [run.run for run in again.replay()] == ["r1"]
    again.close()


def test_a_whole_one_is_used_and_nothing_is_said(path: Path, killed: Path):
    for each, count in ((path, 60), (killed, 65)):
        journal, said = open_journal(each, None, nobody)
        assert said is None
        assert len(journal.replay()[0].inputs) == count
        journal.close()


def test_one_that_is_a_folder_is_kept_aside_too(tmp_path: Path):
    path = tmp_path / "journal.sqlite"
    path.mkdir()
    journal, said = open_journal(path, None, nobody)
    assert said is not None
    assert "it is a folder" in said
    journal.close()


@pytest.mark.parametrize("end", BESIDE)
def test_one_that_may_not_be_read_stays_and_what_to_do_is_said(
    killed: Path, end: str, monkeypatch: pytest.MonkeyPatch
):
    """Without its rights; who runs tests may be root, whom no rights keep out."""
    shut = killed.with_name(killed.name + end)
    shut.touch()
    found = {each.name: each.read_bytes() for each in killed.parent.iterdir()}
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != shut)
    with pytest.raises(OperatorError, match=f"{shut.name} may not be read.*chmod") as told:
        open_journal(killed, None, nobody)
    assert not isinstance(told.value, JournalDamaged)
    assert {each.name: each.read_bytes() for each in killed.parent.iterdir()} == found


def test_one_that_the_disk_does_not_give_stays(killed: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(OperatorError, match="Input/output error; it is left as it is") as told:
        open_journal(killed, None, nobody)
    assert not isinstance(told.value, JournalDamaged)
    assert not list(killed.parent.glob("*damaged*"))


def test_what_was_written_ahead_is_looked_at_too_and_kept_aside_with_the_rest(killed: Path):
    ahead = killed.with_name("journal.sqlite-wal")
    at = ahead.read_bytes().index(MARK)
    change(ahead, at + 5, b"\x00")
    found = ahead.read_bytes()
    journal, said = open_journal(killed, None, nobody)
    journal.close()
    assert said is not None
    assert "written to it last" in said
    (kept,) = killed.parent.glob("journal-damaged-*.sqlite-wal")
    assert kept.read_bytes() == found


def test_a_garbled_beginning_of_what_was_written_ahead_is_damage(killed: Path):
    change(killed.with_name("journal.sqlite-wal"), 8, b"\xff" * 8)
    with pytest.raises(JournalDamaged, match="written to it last"):
        Journal(killed)


def test_what_was_written_ahead_to_a_file_that_is_gone_is_kept_aside(killed: Path):
    killed.unlink()
    journal, said = open_journal(killed, None, nobody)
    assert said is not None
    assert journal.replay() == ()
    assert list(killed.parent.glob("journal-damaged-*.sqlite-wal"))
    journal.close()


def test_what_the_computer_was_at_when_its_power_went_is_no_damage(killed: Path):
    ahead = killed.with_name("journal.sqlite-wal")
    ahead.write_bytes(ahead.read_bytes()[:-1000])
    journal = Journal(killed)
    assert len(journal.replay()[0].inputs) >= 60
    journal.close()


def test_what_is_kept_aside_twice_in_a_second_has_two_names(path: Path):
    first = set_aside(path)
    path.write_bytes(b"another")
    second = set_aside(path)
    assert first != second
    assert second.read_bytes() == b"another"


def test_one_whose_bytes_rot_while_it_is_read_ends_its_program_with_what_to_do(path: Path):
    died: queue.Queue[CrowdpipeError] = queue.Queue()
    journal = Journal(path, died=died.put)
    flip_bit_of_a_frame(path)
    with pytest.raises(JournalDamaged):
        read_frames(journal)
    said = died.get(timeout=LIMIT_S)
    assert "start again" in said.reason
    assert "backup" in said.reason
    with pytest.raises(JournalDamaged):
        wait_for(journal)
    journal.close()


def test_one_whose_pages_rot_while_it_is_written_ends_its_program_with_what_to_do(path: Path):
    died: queue.Queue[CrowdpipeError] = queue.Queue()
    journal = Journal(path, died=died.put)
    nbytes = path.stat().st_size
    change(path, 4096, b"\x5a" * (nbytes - 4096))
    refused: queue.Queue[object] = queue.Queue()
    journal.store_input("r1", 99, b"x" * 100_000, refused.put)
    assert isinstance(refused.get(timeout=LIMIT_S), OperatorError)
    assert isinstance(died.get(timeout=LIMIT_S), JournalDamaged)
    journal.close()
