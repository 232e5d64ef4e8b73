"""Libraries are tried in a process of their own, so that one that crashes is told about."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.adapters.device.installed import interpreter, library
from edge_agent.adapters.device.proc_access import proc_access

HERE = "numpy"


def module(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / f"{HERE}.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_the_real_libraries_load():
    assert library("numpy").version
    runtime = library("onnxruntime")
    assert (runtime.fault, runtime.max_opset >= 17) == ("", True)
    assert interpreter().bits == 64


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("raise ImportError('dlopen failed: libopenblas.so')", "dlopen failed: libopenblas.so"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "SIGILL"),
        ("import os; os._exit(1)", "without a word"),
        ("while True: pass", "did not end within 1 s"),
    ],
)
def test_a_library_that_does_not_load_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, fault: str
):
    module(tmp_path, body, monkeypatch)
    trial = library(HERE, limit_s=1 if "while" in body else 30)
    assert trial.version == ""
    assert fault in trial.fault


def test_a_library_that_is_not_there_is_told_from_one_that_misses_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    absent = library("no_such_library_of_ours")
    assert (absent.version, absent.fault) == ("", "")
    module(tmp_path, "import no_such_library_of_ours", monkeypatch)
    assert "no_such_library_of_ours" in library(HERE).fault


def test_files_below_proc_that_may_not_be_read_are_named(tmp_path: Path):
    for name in ("meminfo", "self/statm", "self/status", "cpuinfo", "stat", "uptime"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    access = proc_access(tmp_path)
    assert (access.needed, access.spared) == (("/proc/self/maps",), ("/proc/loadavg",))
    assert proc_access().needed == ()
