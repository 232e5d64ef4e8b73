"""What a process was at when it ended is known to the next one; and nothing else depends on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edge_agent.adapters.store.work_note import NBYTES, WorkNote, machine_boot
from wire.ids import PartitionId, TaskId
from wire.messages.state import LastWork

TASK = TaskId("run1", 7, 0, 3, 2)
PART = PartitionId("0" * 64, False, 0, 3)
ENDS_IN_THE_MIDST = """
import os, signal
from pathlib import Path
from edge_agent.adapters.store.work_note import WorkNote
from wire.ids import TaskId
WorkNote(Path({path!r}), "b1").running(TaskId("run1", 7, 0, 3, 2))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_is_known_to_have_run_its_task(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    program = ENDS_IN_THE_MIDST.format(path=str(path))
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=30)
    assert done.returncode == -9
    assert WorkNote(path, "b2").last_work == LastWork("b1", task=TASK)


def test_a_load_is_noted_too_and_what_ended_is_not(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    first = WorkNote(path, "b1")
    assert first.last_work is None
    first.running(TASK)
    first.rest()
    first.loading(PART)
    second = WorkNote(path, "b2")
    assert second.last_work == LastWork("b1", partition=PART)
    second.running(TASK)
    second.rest()
    assert WorkNote(path, "b3").last_work == LastWork("b2")


def test_who_ends_in_order_was_at_nothing_even_if_a_task_still_runs(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    note = WorkNote(path, "b1")
    note.running(TASK)
    note.close()
    note.running(TASK)
    assert WorkNote(path, "b2").last_work == LastWork("b1")


def test_a_device_that_was_switched_off_ended_over_nothing(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    WorkNote(path, "b1", machine="monday").running(TASK)
    assert WorkNote(path, "b2", machine="tuesday").last_work == LastWork("b1")


@pytest.mark.parametrize("found", [b"", b"\0" * NBYTES, b"{}", b"\xff" * 99, b'{"machine": 1}'])
def test_what_is_no_note_tells_nothing(tmp_path: Path, found: bytes) -> None:
    path = tmp_path / "at-work"
    path.write_bytes(found)
    assert WorkNote(path, "b1").last_work is None
    assert WorkNote(path, "b2").last_work == LastWork("b1")


def test_a_task_that_does_not_fit_the_note_is_not_noted(tmp_path: Path) -> None:
    path = tmp_path / "at-work"
    WorkNote(path, "b1").running(TaskId("r" * NBYTES, 7, 0, 3))
    assert path.stat().st_size == NBYTES
    assert WorkNote(path, "b2").last_work == LastWork("b1")


def test_where_nothing_can_be_noted_everything_else_works(tmp_path: Path) -> None:
    note = WorkNote(tmp_path / "missing" / "at-work", "b1")
    note.running(TASK)
    note.close()
    assert note.last_work is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_keeps_nobody_from_working() -> None:
    note = WorkNote(Path("/dev/full"), "b1")
    note.running(TASK)
    note.rest()
    note.close()


def test_the_same_start_of_the_device_has_the_same_name() -> None:
    assert machine_boot() == machine_boot()
