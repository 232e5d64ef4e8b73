"""A command of the system, asked once: with a limit, and a bound on what it may say.

What it started is ended with it: `termux-*` are scripts, and what hangs is a child of theirs.
What the answer means is for whoever asks.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Literal

MOST_SAID_NBYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """`text` is what it said, errors included. `status` is None unless it ended by itself."""

    outcome: Literal["missing", "hung", "ended"]
    text: str = ""
    status: int | None = None
    took_s: float = 0.0

    @property
    def worked(self) -> bool:
        return self.status == 0


def ask_command(words: Sequence[str], limit_s: float) -> CommandAnswer:
    """Runs `words`; never raises."""
    began_s = time.monotonic()
    path = shutil.which(words[0])
    if path is None:
        return CommandAnswer("missing")
    try:
        process = subprocess.Popen(
            [path, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        return CommandAnswer("ended", str(error.strerror), 127)
    try:
        text = _said(process.stdout, began_s + limit_s)
        status = _status(process, began_s + limit_s)
    finally:
        _end(process)
    outcome: Literal["hung", "ended"] = "hung" if status is None else "ended"
    return CommandAnswer(outcome, text, status, time.monotonic() - began_s)


def _said(pipe: IO[bytes] | None, until_s: float) -> str:
    """To its end, or until the time or the bound is reached."""
    assert pipe is not None
    data = b""
    with pipe:
        while len(data) < MOST_SAID_NBYTES:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until_s - time.monotonic()))
            piece = os.read(pipe.fileno(), 4096) if ready else b""
            if not piece:
                break
            data += piece
    return data.decode(errors="replace").strip()


def _status(process: subprocess.Popen[bytes], until_s: float) -> int | None:
    try:
        return process.wait(max(0.05, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all of its session, of which it was the first."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
