"""Commands of the system are asked once, with a limit, and leave nothing behind."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import pytest

from edge_agent.adapters.device.command import MOST_SAID_NBYTES, ask_command


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose commands are found before all others."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def write(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def has_ended(pid: int, limit_s: float = 10.0) -> bool:
    """A process that is no child of ours; waits for its end."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], limit_s)[0])
    finally:
        os.close(handle)


def test_what_it_says_is_heard_with_its_status(commands: Path):
    write(commands, "speak", "echo one; echo two >&2; exit 3")
    answer = ask_command(["speak"], 10)
    assert (answer.outcome, answer.text, answer.status) == ("ended", "one\ntwo", 3)
    assert not answer.worked


def test_a_command_that_is_not_there_is_missing(commands: Path):
    assert ask_command(["no-such-command"], 10).outcome == "missing"


def test_a_command_that_cannot_be_run_says_why(commands: Path):
    path = commands / "broken"
    path.write_bytes(b"\x7fELF not really")
    path.chmod(0o755)
    answer = ask_command(["broken"], 10)
    assert (answer.outcome, answer.worked) == ("ended", False)
    assert answer.text


def test_what_hangs_is_ended_with_its_children(commands: Path):
    write(commands, "hang", f"sleep 600 & echo $! > {commands}/child; wait")
    began_s = time.monotonic()
    assert ask_command(["hang"], 0.5).outcome == "hung"
    assert time.monotonic() - began_s < 10
    assert has_ended(int((commands / "child").read_text()))


def test_a_child_that_keeps_the_pipe_open_holds_nobody(commands: Path):
    write(commands, "leave", f"sleep 600 & echo $! > {commands}/child; echo said")
    answer = ask_command(["leave"], 0.5)
    assert answer.text == "said"
    assert has_ended(int((commands / "child").read_text()))


def test_what_never_stops_talking_is_cut_short(commands: Path):
    write(commands, "flood", "exec yes")
    answer = ask_command(["flood"], 5)
    assert MOST_SAID_NBYTES <= len(answer.text) + 1 < 2 * MOST_SAID_NBYTES
