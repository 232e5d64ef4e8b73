"""A child process: started, watched, signalled, stopped; its output goes to a file.

It ends with this process, also when this one is killed (see `parent_watch`), and is kept out of the
terminal's process group: Ctrl-C reaches whoever started it, who then stops it in order.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from broker_config import parent_watch
from wire.errors import OperatorError, TimedOut

STOP_LIMIT_S = 5.0
START_LIMIT_S = 20.0


class Child:
    """One run of `program`; output of all runs is appended to `log`. `environment` is all
    of the child's, or None for a copy of ours; secrets go there, since arguments are public."""

    def __init__(
        self, program: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._program = list(program)
        self._environment = environment
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._begun = threading.Event()
        self._ended = threading.Event()
        self._log_start = log.stat().st_size if log.exists() else 0

    def start(self) -> None:
        """Start the program. Raises `OperatorError` if there is no process to be had; a program
        that does not exist ends at once and says so in its output."""
        # Linux sends the death signal when the *thread* that forked ends, so the thread that
        # forks stays until the child is gone.
        keeper = threading.Thread(target=self._keep, name="child-keeper", daemon=True)
        keeper.start()
        if not self._begun.wait(START_LIMIT_S):
            raise TimedOut(f"{self._program[0]} was not started within {START_LIMIT_S:g} s")
        if self._failure is not None:
            raise OperatorError(f"cannot start {self._program[0]}: {self._failure}")

    def _keep(self) -> None:
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", parent_watch.__file__, str(os.getpid()), *self._program],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=self._environment,
                )
        except OSError as error:
            self._failure = error
            self._ended.set()
            return
        finally:
            self._begun.set()
        self._process.wait()
        self._ended.set()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise OperatorError(f"{self._program[0]} was never started")
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while the program runs, negative for the signal that ended it."""
        return None if self._process is None else self._process.returncode

    def wait(self, limit_s: float) -> bool:
        """Wait for the end; False if it still runs after `limit_s`."""
        return self._ended.wait(limit_s)

    def signal(self, number: int) -> None:
        """Send a signal; a program that has ended is left alone."""
        if self._process is not None:
            self._process.send_signal(number)

    def stop(self, limit_s: float = STOP_LIMIT_S) -> None:
        """Ask the program to end, and kill it if it has not after `limit_s`."""
        if self._process is None or self._ended.is_set():
            return
        self._process.terminate()
        if not self._ended.wait(limit_s):
            self._process.kill()
            if not self._ended.wait(limit_s):
                raise TimedOut(f"{self._program[0]} (pid {self.pid}) survived SIGKILL")

    def output(self, limit_nbytes: int = 4096) -> str:
        """The end of what this run has written."""
        with self._log.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - limit_nbytes))
            return log.read(limit_nbytes).decode(errors="replace")
