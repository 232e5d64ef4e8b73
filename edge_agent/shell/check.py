"""`crowdpipe-agent --check`: what this device can do, without connecting to anything."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from edge_agent import __version__
from edge_agent.adapters.device.battery import Battery
from edge_agent.adapters.device.memory import available_nbytes, rss_nbytes, trimming
from edge_agent.adapters.device.readings import disk_free_nbytes
from edge_agent.adapters.device.runtime_version import max_opset, runtime_version
from edge_agent.adapters.device.settings import default_memory_nbytes
from wire import WIRE_VERSION

MIB = 1 << 20


def examine(folder: Path) -> dict[str, Any]:
    """Plain facts about this device, as `--json` prints them; None where it does not say."""
    memory = available_nbytes()
    battery = Battery()
    reading = battery.read_now()
    version = runtime_version()
    return {
        "agent_version": __version__,
        "wire_version": WIRE_VERSION,
        "platform": sys.platform,
        "architecture": platform.machine(),
        "python_version": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "runtime_version": version or None,
        "max_opset": max_opset(version),
        "memory_total_nbytes": memory[0] if memory else None,
        "memory_available_nbytes": memory[1] if memory else None,
        "memory_budget_nbytes": default_memory_nbytes(),
        "agent_rss_nbytes": rss_nbytes(),
        "memory_given_back_by": trimming() or None,
        "disk_free_nbytes": disk_free_nbytes(_existing(folder)),
        "battery_source": battery.source or None,
        "battery_percent": reading.percent,
        "battery_charging": reading.charging,
        "battery_temperature_c": reading.temperature_c,
        "psutil": _importable("psutil"),
        "yaml": _importable("yaml"),
    }


def as_json(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=2)


def as_text(facts: dict[str, Any]) -> str:
    """The same for people, with what to do about what is missing."""
    lines = [
        f"crowdpipe-agent {facts['agent_version']} on {facts['platform']} "
        f"({facts['architecture']}), Python {facts['python_version']}",
        f"  ONNX Runtime  {_runtime(facts)}",
        f"  processor     {facts['cores']} cores",
        f"  memory        {_mib(facts['memory_available_nbytes'])} available of "
        f"{_mib(facts['memory_total_nbytes'])}; partitions may take "
        f"{_mib(facts['memory_budget_nbytes'])} unless you say --memory",
        f"  this agent    {_mib(facts['agent_rss_nbytes'])} while idle",
        f"  giving back   {facts['memory_given_back_by'] or 'not possible here: memory stays'}",
        f"  disk          {_mib(facts['disk_free_nbytes'])} free",
        f"  battery       {_battery(facts)}",
        f"  psutil {'is' if facts['psutil'] else 'is not'} there (it need not be); settings files "
        f"{'may be YAML' if facts['yaml'] else 'must be JSON'}",
    ]
    return "\n".join(lines)


def _runtime(facts: dict[str, Any]) -> str:
    if not facts["runtime_version"]:
        return "missing: install onnxruntime (in Termux: pkg install python-onnxruntime)"
    return f"{facts['runtime_version']}, models up to opset {facts['max_opset']}"


def _battery(facts: dict[str, Any]) -> str:
    if facts["battery_percent"] is None:
        return "none seen (in Termux: pkg install termux-api, and the app Termux:API)"
    charging = {True: ", charging", False: ", not charging", None: ""}
    return f"{facts['battery_percent']:g} %{charging[facts['battery_charging']]}"


def _mib(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else f"{nbytes / MIB:,.0f} MiB"


def _importable(name: str) -> bool:
    try:
        if importlib.util.find_spec(name) is None:
            return False
        __import__(name)
    except Exception:  # psutil raises NotImplementedError on a platform that it does not know
        return False
    return True


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents, Path("/")) if path.exists())
