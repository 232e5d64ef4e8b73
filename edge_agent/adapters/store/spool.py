"""Frames that wait or are kept: in memory up to a bound, on disk beyond it.

A frame lies here under its activation and side until it is forgotten; of an input each sender's
copy by itself, so that nobody's takes the place of another's. At the total bound a
further input is refused with `SpoolFull`, and its sender's copy stays the only one. An output is
always taken: its task was only started because there was room for it, and what came meanwhile and
was not refused yet must not cost it; so one output may be held beyond the bound for a moment. The
folder is emptied at the start of the process: whoever needs a lost frame has it sent again.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wire.errors import BlobMissing, OperatorError
from wire.frames import ATTEMPT_NBYTES, attempt_of
from wire.ids import ActivationId

MEMORY_NBYTES = 16 << 20
Side = Literal["input", "output"]


class SpoolFull(OperatorError):
    """Holding this frame would exceed the bound."""

    kind = "spool_full"


class FrameMissing(BlobMissing):
    """The frame was forgotten, or never came."""

    kind = "frame_missing"


@dataclass(frozen=True, slots=True)
class _Kept:
    nbytes: int
    start: bytes  # enough of the frame to tell its attempt without asking the disk
    data: bytes | None  # the frame, if it is in memory …
    file: Path | None  # … else where it is
    number: int  # of the last input when this was put


class Spool:
    """Safe to use from several threads."""

    def __init__(self, folder: Path, total_nbytes: int, memory_nbytes: int = MEMORY_NBYTES) -> None:
        self._folder = folder
        self._total_nbytes = total_nbytes
        self._memory_nbytes = memory_nbytes
        self._guard = threading.Lock()
        self._kept: dict[tuple[ActivationId, Side], dict[str, _Kept]] = {}  # by sender; none empty
        self._in_memory = 0
        self._held = 0
        self._numbers = itertools.count(1)
        self.inputs = 0  # so many were put so far
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    @property
    def nbytes(self) -> int:
        """Held in memory and on disk."""
        return self._held

    def put(self, activation: ActivationId, side: Side, data: bytes, sender: str = "") -> None:
        """Keep a frame, in place of an earlier one of that name and sender. Raises `SpoolFull`."""
        with self._guard:
            old = self._copy(activation, side, sender)
            held = self._held - (old.nbytes if old else 0)
            if side == "input" and held + len(data) > self._total_nbytes:
                raise SpoolFull(
                    f"no room for {activation} ({len(data)} bytes): {held} of "
                    f"{self._total_nbytes} bytes are held; give the agent more with --hold"
                )
            number = self.inputs + (side == "input")
            kept = self._keep(data, number)  # before the old one goes: this may fail
            self._drop(activation, side, sender)
            self.inputs = number
            self._kept.setdefault((activation, side), {})[sender] = kept
            self._held += len(data)

    def get(self, activation: ActivationId, side: Side, sender: str = "") -> bytes:
        """The whole frame. Raises `FrameMissing`."""
        with self._guard:
            kept = self._copy(activation, side, sender)
            if kept is None:
                raise FrameMissing(f"the {side} {activation} is not held here")
            if kept.data is not None:
                return kept.data
            assert kept.file is not None
            try:
                return kept.file.read_bytes()
            except OSError as error:  # a phone's owner, or Android, has emptied the folder
                raise FrameMissing(f"the {side} {activation} cannot be read: {error}") from None

    def measure(self, activation: ActivationId, side: Side) -> tuple[int, int] | None:
        """The frame's bytes and attempt, without reading it; None if it is not held."""
        with self._guard:
            kept = self._copy(activation, side, "")
            if kept is None:
                return None
            return kept.nbytes, attempt_of(kept.start)

    def forget(
        self,
        activation: ActivationId,
        side: Side,
        sender: str | None = None,
        number: int | None = None,
    ) -> None:
        """One sender's copy; None: all copies. With a `number`, no input that was put after it."""
        with self._guard:
            copies = self._kept.get((activation, side), {})
            for each, kept in list(copies.items()):
                later = side == "input" and number is not None and kept.number > number
                if sender in (None, each) and not later:
                    self._drop(activation, side, each)

    def _copy(self, activation: ActivationId, side: Side, sender: str) -> _Kept | None:
        return self._kept.get((activation, side), {}).get(sender)

    def _keep(self, data: bytes, number: int) -> _Kept:
        if self._in_memory + len(data) <= self._memory_nbytes:
            self._in_memory += len(data)
            return _Kept(len(data), data, data, None, number)
        file = self._folder / f"{next(self._numbers)}.frame"
        try:
            file.write_bytes(data)
        except OSError as error:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)
            raise SpoolFull(
                f"a frame of {len(data)} bytes cannot be kept in {self._folder}: "
                f"{error.strerror or error}; make room on this device"
            ) from None
        return _Kept(len(data), data[:ATTEMPT_NBYTES], None, file, number)

    def _drop(self, activation: ActivationId, side: Side, sender: str) -> None:
        copies = self._kept.get((activation, side), {})
        kept = copies.pop(sender, None)
        if kept is None:
            return
        if not copies:
            del self._kept[(activation, side)]
        self._held -= kept.nbytes
        if kept.data is not None:
            self._in_memory -= kept.nbytes
        if kept.file is not None:
            with contextlib.suppress(OSError):  # the folder is emptied at the next start
                kept.file.unlink(missing_ok=True)
