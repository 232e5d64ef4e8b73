"""`crowdpipe-agent doctor`: what commonly fails on a device, and what to do about each.

Asks the adapters, all at once where they do not stand in each other's way, has `diagnosis` judge
what they say, and prints it. Takes some 20 s at most. Mends nothing.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edge_agent import __version__
from edge_agent.adapters.device import android
from edge_agent.adapters.device.installed import interpreter, library, psutil_use
from edge_agent.adapters.device.memory import available_nbytes, rss_nbytes, trimming
from edge_agent.adapters.device.proc_access import proc_access
from edge_agent.adapters.device.settings import (
    DEFAULT_DISK_NBYTES,
    DEFAULT_HOLD_NBYTES,
    AgentSettings,
    checked_settings,
    default_memory_nbytes,
    settings_file,
    written_settings,
)
from edge_agent.adapters.store.folder_use import disk_room, folder_use
from edge_agent.diagnosis.checks import checks_for, examine
from edge_agent.diagnosis.facts import FolderUse, LibraryTrial, MemoryRoom, SettingsUse
from edge_agent.diagnosis.report import as_lines, as_plain
from edge_agent.shell.inquiry import Inquiry
from edge_agent.shell.way_to_desk import WayToDesk
from wire import WIRE_VERSION
from wire.broker_url import parse_url
from wire.errors import CrowdpipeError

QUICK_LIMIT_S = 5.0
FOLDER_LIMIT_S = 1.5  # whatever goes to the desk waits for it
SLOW_LIMIT_S = 10.0  # commands of Termux, which have limits of their own
IMPORT_LIMIT_S = 18.0
FAULT_STATUS = 3
CANDIDATE = Path("~/.cache/crowdpipe-agent")

Question = tuple[Callable[[], object], float]


def examine_device(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    config: Path | None,
    *,
    as_json: bool,
) -> int:
    """The exit status: 0 if nothing is a fault."""
    logging.getLogger("crowdpipe").addHandler(logging.NullHandler())  # the report says it
    use, settings, folder = _settings_of(flags, environment, config)
    on_android = android.on_android(environment)
    asked = {
        name: Inquiry(ask, limit_s)
        for name, (ask, limit_s) in _questions(settings, folder, environment, on_android).items()
    }
    facts: dict[str, object] = {"settings": use}
    if settings is not None:
        facts |= WayToDesk(settings, _occupied(asked["folder"].answer())).go()
    facts |= {name: each.answer() for name, each in asked.items()}
    broker = None if settings is None else settings.broker
    checks = checks_for(
        android=on_android, broker=broker is not None, tls=broker is not None and broker.tls
    )
    examination = examine(checks, facts)
    if as_json:
        print(json.dumps(as_plain(examination, _device(facts)), indent=2))
    else:
        print(f"crowdpipe-agent {__version__} on {sys.platform} ({platform.machine()})\n")
        print("\n".join(as_lines(examination, shutil.get_terminal_size().columns)))
    return FAULT_STATUS if examination.level == "fault" else 0


def _occupied(folder: object) -> str:
    """Why this device's name may be in use, empty if it is not."""
    if not isinstance(folder, FolderUse):
        return "whether an agent runs here cannot be told"
    return "an agent runs here" if folder.taken else ""


def _settings_of(
    flags: Mapping[str, Any], environment: Mapping[str, str], config: Path | None
) -> tuple[SettingsUse, AgentSettings | None, Path]:
    """With the agent's folder, as far as it is known without a broker."""
    file = settings_file(environment, config)
    folder = CANDIDATE.expanduser()
    try:
        plain = written_settings(flags, environment, config)
        folder = Path(str(plain.get("cache") or folder)).expanduser()
        settings = checked_settings(plain) if plain.get("broker") else None
    except CrowdpipeError as error:
        return SettingsUse(str(error).rstrip("."), True), None, folder
    use = SettingsUse(
        "", settings is not None, *((str(file), _mode(file), _has_secret(file)) if file else ())
    )
    return use, settings, folder if settings is None else settings.folder


def _mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def _has_secret(file: Path) -> bool:
    broker = written_settings({}, {}, file).get("broker")
    try:
        return bool(broker) and parse_url(str(broker)).secret is not None
    except CrowdpipeError:
        return False  # another setting won over it; this one is not used


def _questions(
    settings: AgentSettings | None,
    folder: Path,
    environment: Mapping[str, str],
    on_android: bool,
) -> dict[str, Question]:
    memory = default_memory_nbytes() if settings is None else settings.memory_nbytes
    wanted = DEFAULT_DISK_NBYTES + DEFAULT_HOLD_NBYTES
    if settings is not None:
        wanted = settings.disk_nbytes + settings.hold_nbytes
    name = None if settings is None else settings.name
    questions: dict[str, Question] = {
        "folder": (lambda: folder_use(folder, name), FOLDER_LIMIT_S),
        "python": (interpreter, QUICK_LIMIT_S),
        "runtime": (lambda: library("onnxruntime"), IMPORT_LIMIT_S),
        "numpy": (lambda: library("numpy"), IMPORT_LIMIT_S),
        "psutil": (psutil_use, QUICK_LIMIT_S),
        "memory": (lambda: _memory(memory), QUICK_LIMIT_S),
        "disk": (lambda: disk_room(folder, wanted), QUICK_LIMIT_S),
        "proc": (proc_access, QUICK_LIMIT_S),
    }
    return questions | (_android_questions(environment) if on_android else {})


def _android_questions(environment: Mapping[str, str]) -> dict[str, Question]:
    return {
        "termux": (lambda: android.termux_app(environment), QUICK_LIMIT_S),
        "termux_api": (android.termux_api, SLOW_LIMIT_S),
        "phantom": (android.phantom_killer, SLOW_LIMIT_S),
        "exemption": (lambda: android.battery_exemption(environment), SLOW_LIMIT_S),
        "upkeep": (lambda: android.upkeep(environment, Path.home()), QUICK_LIMIT_S),
    }


def _memory(budget_nbytes: int) -> MemoryRoom:
    total, available = available_nbytes() or (None, None)
    return MemoryRoom(total, available, budget_nbytes)


def _device(facts: Mapping[str, object]) -> dict[str, Any]:
    """What this device is; None where it does not say."""
    runtime, memory = facts.get("runtime"), facts.get("memory")
    loads = isinstance(runtime, LibraryTrial) and bool(runtime.version)
    return {
        "agent_version": __version__,
        "wire_version": WIRE_VERSION,
        "platform": sys.platform,
        "architecture": platform.machine(),
        "python_version": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "runtime_version": getattr(runtime, "version", None) if loads else None,
        "max_opset": getattr(runtime, "max_opset", None) if loads else None,
        "memory_total_nbytes": getattr(memory, "total_nbytes", None),
        "memory_available_nbytes": getattr(memory, "available_nbytes", None),
        "memory_budget_nbytes": getattr(memory, "budget_nbytes", None),
        "doctor_rss_nbytes": rss_nbytes(),
        "memory_given_back_by": trimming() or None,
        "disk_free_nbytes": getattr(facts.get("disk"), "free_nbytes", None),
    }
