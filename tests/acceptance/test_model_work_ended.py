"""Work on a model ends when its command is told to, or is killed, whatever native code does.

A pipe that nobody writes to stands for a model that takes for ever.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.acceptance.conftest import ProcessTree
from tests.support.waiting import wait_until

Start = Callable[..., ProcessTree]


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    path = tmp_path / "endless.onnx"
    os.mkfifo(path)
    return path


def works(tree: ProcessTree) -> bool:
    """Whether the command has started its worker."""
    tree.look()
    try:
        return any("crowdpipe.serving.worker" in one.cmdline() for one in tree.started.values())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_is_obeyed_while_a_model_is_added(
    process_tree: Start, endless: Path, number: int, code: int
) -> None:
    tree = process_tree("model", "add", endless, "--name", "endless")
    wait_until(lambda: works(tree), "the worker")
    tree.process.send_signal(number)
    out, _ = tree.process.communicate(timeout=10)
    assert (tree.process.returncode, tree.left()) == (code, [])
    assert out == f"Stopped (interrupted by {signal.Signals(number).name}).\n"


def test_no_worker_outlives_a_command_that_is_killed(
    process_tree: Start, endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # what is killed leaves its folders behind
    tree = process_tree("model", "check", endless)
    wait_until(lambda: works(tree), "the worker")
    tree.process.kill()
    assert tree.left() == []
