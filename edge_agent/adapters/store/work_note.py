"""What this process is at, noted where the next one finds it if this one ends in the midst of it.

A native crash, or a system that kills for memory, lets nobody say a word; the file stays. It is
written in place, without waiting for the disk: the system keeps it when the process is gone, and
what is lost when the whole machine goes down tells nothing about the work. It has its size from
the first start on, so that a full disk keeps nobody from noting. Without the file nothing is
noted, and nothing else changes.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from wire.errors import CrowdpipeError
from wire.ids import PartitionId, TaskId
from wire.messages.state import LastWork
from wire.record import decode, encode

NBYTES = 4096  # one page: it is written whole, or not at all
_MACHINE_BOOT = Path("/proc/sys/kernel/random/boot_id")

_log = logging.getLogger("crowdpipe.agent")


@dataclass(frozen=True, slots=True)
class Note:
    """`machine`: the start of the device itself, so far as the system tells."""

    machine: str
    work: LastWork


class WorkNote:
    """`last_work`: what the boot before was at, None if that is not known. Safe to call from any
    thread."""

    def __init__(self, path: Path, boot: str, machine: str | None = None) -> None:
        self._boot = boot
        self._machine = machine_boot() if machine is None else machine
        self._lock = threading.Lock()
        self._file = _opened(path)
        self.last_work = self._read()
        self.rest()

    def running(self, task: TaskId) -> None:
        self._write(LastWork(self._boot, task=task))

    def loading(self, partition: PartitionId) -> None:
        self._write(LastWork(self._boot, partition=partition))

    def rest(self) -> None:
        """Nothing is under way any more."""
        self._write(LastWork(self._boot))

    def close(self) -> None:
        """We are asked to end, or end by ourselves: whatever is under way is not the cause."""
        self.rest()
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                os.close(file)

    def _read(self) -> LastWork | None:
        """After a start of the whole device the work counts as none: that ended with everything."""
        if self._file is None:
            return None
        try:
            note: Note = decode(Note, os.pread(self._file, NBYTES, 0).rstrip(b"\0 "))
        except (OSError, CrowdpipeError):
            return None  # a first start, or not ours
        return note.work if note.machine == self._machine else LastWork(note.work.boot)

    def _write(self, work: LastWork) -> None:
        data = encode(Note(self._machine, work))
        if len(data) > NBYTES:
            data = encode(Note(self._machine, LastWork(work.boot)))
        with self._lock:
            if self._file is None:
                return
            try:
                os.pwrite(self._file, data.ljust(NBYTES), 0)
            except OSError as error:
                _log.warning("cannot note what is under way: %s", error.strerror)
                os.close(self._file)
                self._file = None


def machine_boot() -> str:
    """Which start of the device this is; empty where the system does not tell."""
    try:
        return _MACHINE_BOOT.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        _log.warning("cannot note what is under way in %s: %s", path, error.strerror)
        return None
