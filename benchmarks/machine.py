"""What the figures were taken on, as a reader needs it to judge them."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from broker_config.mosquitto import find_mosquitto

PACKAGES = ("crowdpipe", "onnxruntime", "onnx", "numpy", "paho-mqtt")
LIMIT_S = 5.0


def machine() -> dict[str, object]:
    """Processor, memory, system, versions, and how busy it was when asked."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_nbytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES} | {"mosquitto": _mosquitto()},
        "commit": _commit(),
        "load_average": list(os.getloadavg()),
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _mosquitto() -> str | None:
    program = find_mosquitto()
    if program is None:
        return None
    said = _said([str(program), "-h"])
    return said.split()[2] if said and len(said.split()) > 2 else said


def _commit() -> str | None:
    """The commit of the clone that this runs from, and whether files in it were changed."""
    root = str(Path(__file__).parent.parent)
    commit = _said(["git", "-C", root, "rev-parse", "--short", "HEAD"])
    if commit is None:
        return None
    changed = _said(["git", "-C", root, "status", "--porcelain", "--untracked-files=no"])
    return f"{commit} with changes" if changed else commit


def _said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
