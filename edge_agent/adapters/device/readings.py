"""What the device reads off itself: memory, processor, disk, battery, heat.

psutil is used where it imports; on Android it raises, and `/proc` and `os` serve instead. What
cannot be read is None; nothing here raises.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from edge_agent.adapters.device.battery import Battery, BatteryReading
from edge_agent.adapters.device.memory import available_nbytes, peak_rss_nbytes, rss_nbytes

THERMAL = Path("/sys/class/thermal")
HOTTEST_SENSIBLE_C = 150.0


@dataclass(frozen=True, slots=True)
class Readings:
    """`cpu_percent` is of one core, over the time since the reading before."""

    uptime_s: float
    rss_nbytes: int
    rss_peak_nbytes: int
    memory_total_nbytes: int | None
    memory_available_nbytes: int | None
    disk_free_nbytes: int | None
    cpu_percent: float | None
    cpu_seconds: float
    battery: BatteryReading
    temperature_c: float | None


class Sensors:
    """Keeps what rates need from one reading to the next."""

    def __init__(self, folder: Path, battery: Battery, thermal: Path = THERMAL) -> None:
        self._folder = folder
        self._battery = battery
        self._thermal = thermal
        self._started_s = time.monotonic()
        self._last: tuple[float, float] | None = None

    def read(self) -> Readings:
        memory = available_nbytes()
        battery = self._battery.read()
        seconds = _cpu_seconds()
        return Readings(
            uptime_s=time.monotonic() - self._started_s,
            rss_nbytes=rss_nbytes(),
            rss_peak_nbytes=peak_rss_nbytes(),
            memory_total_nbytes=None if memory is None else memory[0],
            memory_available_nbytes=None if memory is None else memory[1],
            disk_free_nbytes=disk_free_nbytes(self._folder),
            cpu_percent=self._cpu_percent(seconds),
            cpu_seconds=seconds,
            battery=battery,
            temperature_c=self._temperature_c(battery),
        )

    def _cpu_percent(self, seconds: float) -> float | None:
        now = time.monotonic()
        last, self._last = self._last, (now, seconds)
        if last is None or now - last[0] < 0.05:
            return None
        return max(0.0, 100 * (seconds - last[1]) / (now - last[0]))

    def _temperature_c(self, battery: BatteryReading) -> float | None:
        """The hottest zone; the battery's own where zones may not be read, as on phones."""
        zones = [_zone_c(file) for file in self._zone_files()]
        sensible = [zone for zone in zones if zone is not None and 0 < zone < HOTTEST_SENSIBLE_C]
        return max(sensible, default=battery.temperature_c)

    def _zone_files(self) -> list[Path]:
        try:
            return sorted(self._thermal.glob("thermal_zone*/temp"))
        except OSError:
            return []


def disk_free_nbytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def existing_folder(folder: Path) -> Path:
    """`folder`, or the nearest above it that is there and may be seen."""
    return next(path for path in (folder, *folder.parents, Path("/")) if _is_there(path))


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # in a folder that we may not look into
        return False


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


def _zone_c(file: Path) -> float | None:
    try:
        return int(file.read_bytes()) / 1000
    except (OSError, ValueError):
        return None
