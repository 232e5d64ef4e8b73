"""The device's battery: from the kernel's power supplies, or Termux where apps may not read them.

`termux-battery-status` takes 0.6 to 4 s and sometimes hangs, so it runs in a thread of its own,
at most every 30 s and with a limit; readers get the last value. A device without a battery reads
None everywhere. Nothing here raises.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUPPLIES = Path("/sys/class/power_supply")
TERMUX_COMMAND = "termux-battery-status"
TERMUX_INTERVAL_S = 30.0
TERMUX_LIMIT_S = 8.0


@dataclass(frozen=True, slots=True)
class BatteryReading:
    """Current is positive while charging where the device says so; its sign varies by maker."""

    percent: float | None = None
    charge_uah: int | None = None
    current_ua: int | None = None
    charging: bool | None = None
    temperature_c: float | None = None


NO_BATTERY = BatteryReading()


class Battery:
    """Asks whatever source this device has."""

    def __init__(self, supplies: Path = SUPPLIES, command: str | None = None) -> None:
        self._supplies = supplies
        self._command = shutil.which(TERMUX_COMMAND) if command is None else command
        self._last = NO_BATTERY
        self._asked_s = float("-inf")
        self._asking: threading.Thread | None = None

    @property
    def source(self) -> str:
        """Where readings come from, for people; empty if there is no battery to be seen."""
        if self._supply() is not None:
            return str(self._supplies)
        return self._command or ""

    def read(self) -> BatteryReading:
        """The latest reading; starts a fresh one with Termux when the last is 30 s old."""
        supply = self._supply()
        if supply is not None:
            return supply
        if self._command and time.monotonic() - self._asked_s >= TERMUX_INTERVAL_S:
            self._ask()
        return self._last

    def read_now(self, limit_s: float = TERMUX_LIMIT_S) -> BatteryReading:
        """As `read`, but waits for the answer, at most `limit_s`."""
        reading = self.read()
        if self._asking is not None:
            self._asking.join(limit_s)
            reading = self._last
        return reading

    def _supply(self) -> BatteryReading | None:
        try:
            files = sorted(self._supplies.glob("*/uevent"))
        except OSError:
            return None
        for file in files:
            fields = _uevent(file)
            if fields.get("TYPE") == "Battery" and fields.get("SCOPE") != "Device":
                return _from_kernel(fields)
        return None

    def _ask(self) -> None:
        if self._asking is not None and self._asking.is_alive():
            return
        self._asked_s = time.monotonic()
        self._asking = threading.Thread(target=self._ask_termux, name="battery", daemon=True)
        self._asking.start()

    def _ask_termux(self) -> None:
        try:
            said = subprocess.run(
                [str(self._command)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=TERMUX_LIMIT_S,
                check=False,
            ).stdout
            fields = json.loads(said)
        except (OSError, ValueError, subprocess.SubprocessError):
            return  # the last value stands until Termux answers again
        if isinstance(fields, dict):
            self._last = _from_termux(fields)


def _uevent(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.removeprefix("POWER_SUPPLY_").partition("=") for line in lines)
    return {name: value for name, _, value in pairs}


def _from_kernel(fields: dict[str, str]) -> BatteryReading:
    temperature = _number(fields.get("TEMP"))
    return BatteryReading(
        percent=_number(fields.get("CAPACITY")),
        charge_uah=_whole(fields.get("CHARGE_NOW") or fields.get("CHARGE_COUNTER")),
        current_ua=_whole(fields.get("CURRENT_NOW")),
        charging=_charging(fields.get("STATUS")),
        temperature_c=None if temperature is None else temperature / 10,
    )


def _from_termux(fields: dict[str, Any]) -> BatteryReading:
    return BatteryReading(
        percent=_number(fields.get("percentage")),
        charge_uah=_whole(fields.get("charge_counter")),
        current_ua=_whole(fields.get("current")),
        charging=_charging(fields.get("status")),
        temperature_c=_number(fields.get("temperature")),
    )


def _charging(status: Any) -> bool | None:
    if not isinstance(status, str) or status.upper() == "UNKNOWN":
        return None
    return status.upper() in ("CHARGING", "FULL")


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < 1e15 else None  # NaN and infinity have no place in JSON


def _whole(value: Any) -> int | None:
    number = _number(value)
    return None if number is None else int(number)
