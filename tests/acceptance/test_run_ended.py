"""Commands that a signal or their reader ends, end kindly; a run does not go on without them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.conftest import ROOT, ProcessTree, environment
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_waits_ends_with_a_word_and_the_signals_code(
    process_tree: Callable[..., ProcessTree], number: signal.Signals
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes the call and says nothing
        address = f"mqtt://127.0.0.1:{silent.getsockname()[1]}"
        command = process_tree("devices", "--broker", address).process
        silent.settimeout(20)
        with silent.accept()[0]:
            command.send_signal(number)
            said = command.communicate(timeout=20)[0]
    assert command.returncode == 128 + number
    assert said == f"Stopped (interrupted by {number.name}).\n"


def test_a_reader_that_has_enough_is_no_failure(tmp_path: Path) -> None:
    with served(tmp_path / "home", devices=1) as fleet:
        for command in (["watch"], ["devices", "--json"]):
            writer = subprocess.Popen(
                [sys.executable, "-m", "crowdpipe", *command],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env=environment(fleet.home),
            )
            assert writer.stdout is not None
            assert writer.stderr is not None
            assert writer.stdout.readline()
            writer.stdout.close()
            assert writer.wait(30) == 0  # the agent's telemetry makes it write again
            assert writer.stderr.read() == ""
            writer.stderr.close()
