"""A run whose command is ended by a signal does not go on without it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.conftest import ProcessTree
from tests.acceptance.served import served


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_ended_command_cancels_its_run(
    tmp_path: Path, process_tree: Callable[..., ProcessTree], number: signal.Signals
) -> None:
    np.savez(tmp_path / "items.npz", x=np.ones((1, 24), np.float32))
    with served(tmp_path / "home", devices=1) as fleet:
        fleet.add("tiny", layers=6)
        os.kill(
            fleet.agents.pids["phone-1"], signal.SIGSTOP
        )  # so that the run cannot end by itself
        arguments = ("--input", tmp_path / "items.npz", "--output", tmp_path / "results.npz")
        command = process_tree("run", "tiny", *arguments, "--home", fleet.home).process
        fleet.watcher.wait(lambda seen: bool(seen.runs), 30, "the run to begin")
        command.send_signal(number)
        assert command.wait(20) == 128 + number
        fleet.watcher.wait(
            lambda seen: {run.status for run in seen.runs.values()} == {"cancelled"},
            10,
            "the run to be cancelled",
        )
        os.kill(fleet.agents.pids["phone-1"], signal.SIGCONT)
