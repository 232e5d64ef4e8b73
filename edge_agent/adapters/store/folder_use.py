"""Looks at the agent's folder without taking it: room, whether it can be written, who is in it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from edge_agent.adapters.device.other_agents import agent_may_be_called
from edge_agent.adapters.device.readings import disk_free_nbytes, existing_folder
from edge_agent.adapters.store.agent_folder import LOCK_NAME
from edge_agent.diagnosis.facts import DiskRoom, FolderUse


def folder_use(folder: Path, name: str | None) -> FolderUse:
    """A broker knows but one agent of a name, so one that runs with another folder counts too."""
    if _is_locked(folder):
        return FolderUse(str(folder), taken="folder")
    if name is not None and agent_may_be_called(name):
        return FolderUse(str(folder), _write_fault(folder), "name")
    return FolderUse(str(folder), _write_fault(folder))


def disk_room(folder: Path, wanted_nbytes: int) -> DiskRoom:
    return DiskRoom(disk_free_nbytes(existing_folder(folder)), _blobs_nbytes(folder), wanted_nbytes)


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
