"""Looks at the agent's folder without taking it: room, whether it can be written, who is in it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from edge_agent.adapters.device.readings import disk_free_nbytes, existing_folder
from edge_agent.adapters.store.agent_folder import LOCK_NAME
from edge_agent.diagnosis.facts import DiskRoom, FolderUse

MOST_PROCESSES = 4096
MOST_WORDS_NBYTES = 4096
PROGRAMS = (b"crowdpipe-agent", b"edge_agent")


def folder_use(folder: Path, name: str | None) -> FolderUse:
    """`taken` also if an agent of that name runs with another folder: a broker knows but one."""
    taken = _is_locked(folder) or (name is not None and agent_runs_as(name))
    return FolderUse(str(folder), "" if taken else _write_fault(folder), taken)


def disk_room(folder: Path, wanted_nbytes: int) -> DiskRoom:
    return DiskRoom(disk_free_nbytes(existing_folder(folder)), _blobs_nbytes(folder), wanted_nbytes)


def agent_runs_as(name: str, proc: Path = Path("/proc")) -> bool:
    """As far as command lines tell, of processes that may be seen."""
    marks = (f"//{name}:".encode(), f"--name\0{name}\0".encode(), f"--name={name}\0".encode())
    mine = str(os.getpid())
    folders = sorted(proc.glob("[0-9]*"))[:MOST_PROCESSES]
    return any(_is_agent(folder, marks) for folder in folders if folder.name != mine)


def _is_agent(process: Path, marks: tuple[bytes, ...]) -> bool:
    try:
        with (process / "cmdline").open("rb") as file:
            words = file.read(MOST_WORDS_NBYTES)
    except OSError:
        return False
    serves = b"\0doctor\0" not in words and any(program in words for program in PROGRAMS)
    return serves and any(mark in words for mark in marks)


def _is_locked(folder: Path) -> bool:
    try:
        with (folder / LOCK_NAME).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # no agent was here yet; whether one can be is another question
    return False


def _write_fault(folder: Path) -> str:
    """Tried in the folder, or where it would be made; nothing stays."""
    try:
        with tempfile.TemporaryFile(dir=existing_folder(folder)) as file:
            file.write(b"doctor")
            file.flush()
    except OSError as error:
        return str(error.strerror)
    return ""


def _blobs_nbytes(folder: Path) -> int:
    try:
        with os.scandir(folder / "blobs") as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except OSError:
        return 0
