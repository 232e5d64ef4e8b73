"""What Android and Termux tell an app about themselves, which is little, and less on some phones.

What may not be read is None. `diagnosis.android` says what follows.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edge_agent.adapters.device.battery import TERMUX_COMMAND, TERMUX_LIMIT_S
from edge_agent.adapters.device.command import CommandAnswer, ask_command
from edge_agent.diagnosis.facts import (
    BatteryExemption,
    PhantomKiller,
    TermuxApi,
    TermuxApp,
    Upkeep,
)

SETTING_LIMIT_S = 2.5
USED_FIELDS = ("percentage", "status", "temperature", "current", "charge_counter")
DENIALS = ("Failure", "Exception", "Permission", "denied", "Error", "not allowed")
SAID_LENGTH = 120
TERMUX = "com.termux"
MOST_SCRIPT_NBYTES = 64 << 10


def on_android(environment: Mapping[str, str]) -> bool:
    """Python before 3.13 calls Android Linux; what Android starts has its root in the
    environment."""
    return sys.platform == "android" or "ANDROID_ROOT" in environment


def phantom_killer() -> PhantomKiller:
    sdk = _read("getprop", "ro.build.version.sdk")
    monitors = _read("settings", "get", "global", "settings_enable_monitor_phantom_procs")
    most = _read("device_config", "get", "activity_manager", "max_phantom_processes")
    return PhantomKiller(_whole(sdk), monitors or None, _whole(most))


def battery_exemption(environment: Mapping[str, str]) -> BatteryExemption:
    """From the list of exempt apps, where it may be read."""
    listed = _read("cmd", "deviceidle", "whitelist")
    if not listed:
        return BatteryExemption(None)
    package = environment.get("TERMUX_APP__PACKAGE_NAME") or TERMUX
    entries = (line.strip().split(",") for line in listed.splitlines())
    return BatteryExemption(any(package in entry for entry in entries))


def termux_app(environment: Mapping[str, str]) -> TermuxApp:
    version = environment.get("TERMUX_VERSION") or environment.get("TERMUX_APP__VERSION_NAME")
    shop = environment.get("TERMUX_APK_RELEASE") or environment.get("TERMUX_APP__APK_RELEASE")
    return TermuxApp(version or "", shop or "")


def termux_api(limit_s: float = TERMUX_LIMIT_S) -> TermuxApi:
    answer = ask_command([TERMUX_COMMAND], limit_s)
    if answer.outcome == "missing":
        return TermuxApi("missing")
    if answer.outcome == "hung":
        return TermuxApi("hung", took_s=limit_s)
    fields = _fields(answer)
    if fields is None:
        return TermuxApi("failed", " ".join(answer.text.split())[:SAID_LENGTH], answer.took_s)
    missing = tuple(name for name in USED_FIELDS if fields.get(name) is None)
    return TermuxApi("said", "", answer.took_s, missing)


def upkeep(environment: Mapping[str, str], home: Path) -> Upkeep:
    """What stands in the folders that termux-services and Termux:Boot look at."""
    services = Path(environment.get("PREFIX") or "/usr") / "var" / "service"
    runs = [text for text in _scripts(services, "*/run") if "crowdpipe-agent" in text]
    boots = list(_scripts(home / ".termux" / "boot", "*"))
    return Upkeep(bool(runs), bool(boots), any("termux-wake-lock" in text for text in boots))


def _scripts(folder: Path, pattern: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for path in sorted(folder.glob(pattern)):
            with contextlib.suppress(OSError), path.open("rb") as file:
                yield file.read(MOST_SCRIPT_NBYTES).decode(errors="replace")


def _read(*words: str) -> str | None:
    """What a command of Android prints; None where it is not there, hangs or may not."""
    answer = ask_command(words, SETTING_LIMIT_S)
    denied = any(word in answer.text for word in DENIALS)
    return answer.text if answer.worked and not denied else None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


def _fields(answer: CommandAnswer) -> dict[str, Any] | None:
    """Of its JSON; None if it says something else."""
    try:
        fields = json.loads(answer.text) if answer.worked else None
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None
