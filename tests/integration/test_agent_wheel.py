"""The agent's wheel: pure Python, of three packages, and able to say what the device can do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(
        command, cwd=ROOT / "edge_agent", capture_output=True, text=True, timeout=60
    )
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_agent_the_bus_and_the_language_alone(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    assert wheel.name.endswith("-py3-none-any.whl")
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "bus",
        "edge_agent",
        "wire",
    }
    assert all(name.endswith(".py") for name in names if ".dist-info" not in name)


def test_the_wheel_asks_for_nothing_that_termux_cannot_install(wheel: Path):
    archive = zipfile.ZipFile(wheel)
    metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
    lines = archive.read(metadata).decode().splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist") and "extra" not in line]
    on_android = [line for line in required if "android" not in line]
    assert on_android == ["Requires-Dist: paho-mqtt>=2.2"]


def run(wheel: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """The program out of the wheel alone: Python runs packages from a zip."""
    return subprocess.run(
        [sys.executable, "-m", "edge_agent", *flags],
        cwd=wheel.parent,
        env={**os.environ, "PYTHONPATH": str(wheel), "HOME": str(wheel.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_doctor_says_what_this_device_can_do(wheel: Path):
    assert "ONNX Runtime" in run(wheel, "doctor").stdout
    said = json.loads(run(wheel, "doctor", "--json").stdout)
    assert {check["key"] for check in said["checks"]} >= {"python", "runtime", "numpy", "folder"}
    assert said["device"]["max_opset"] >= 17
    assert said["device"]["doctor_rss_nbytes"] < 40 << 20


def test_help_has_an_example(wheel: Path):
    assert "crowdpipe-agent --broker 'mqtts://" in run(wheel, "--help").stdout


def test_a_missing_setting_is_one_sentence_and_status_2(wheel: Path):
    done = run(wheel)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--broker" in done.stderr
