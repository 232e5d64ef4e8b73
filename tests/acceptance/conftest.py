"""The command line as a person uses it: real processes, a real broker, real agents."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # what `nohup` ignores, everything started here would
LIMIT_S = 120.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one sentence that a failed command says; everything else is a broken promise."""
        assert "Traceback" not in self.err, self.err
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, f"expected one error, found: {self.err!r}"
        return lines[0].removeprefix("error: ")


def environment(home: Path) -> dict[str, str]:
    """Ours without the settings of whoever runs the tests."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("CROWDPIPE")}
    return kept | {"CROWDPIPE_HOME": str(home)}


def run_crowdpipe(home: Path, *arguments: object, limit_s: float = LIMIT_S) -> Ended:
    done = subprocess.run(
        [sys.executable, "-m", "crowdpipe", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        cwd=ROOT,
        env=environment(home),
    )
    return Ended(done.returncode, done.stdout, done.stderr)


Crowdpipe = Callable[..., Ended]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which nothing runs."""
    return tmp_path / "home"


@pytest.fixture
def crowdpipe(home: Path) -> Crowdpipe:
    """Run a command in a home of its own."""
    return lambda *arguments, **options: run_crowdpipe(home, *arguments, **options)


class ProcessTree:
    """A command that runs, and everything it starts."""

    def __init__(self, home: Path, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crowdpipe", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            env=environment(home),
            start_new_session=True,
        )
        self.started: dict[int, psutil.Process] = {}

    def look(self) -> int:
        """Note all descendants there are now; how many were ever seen."""
        try:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                self.started[child.pid] = child
        except psutil.NoSuchProcess:
            pass
        return len(self.started)

    def left(self, limit_s: float = 10.0) -> list[str]:
        """Descendants that still run after `limit_s`."""
        psutil.wait_procs(list(self.started.values()), timeout=limit_s)
        return [" ".join(one.cmdline()) for one in self.started.values() if _runs(one)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def process_tree(home: Path) -> Iterator[Callable[..., ProcessTree]]:
    """Start a command that a test will signal; nothing of it outlives the test."""
    trees: list[ProcessTree] = []

    def start(*arguments: object) -> ProcessTree:
        trees.append(ProcessTree(home, *arguments))
        return trees[-1]

    yield start
    for tree in trees:
        tree.look()
        tree.process.kill()
        for child in tree.started.values():
            if _runs(child):
                child.kill()
        tree.process.wait(10)
