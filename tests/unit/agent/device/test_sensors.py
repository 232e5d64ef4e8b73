"""What the agent reads off a device, where it may and where it may not."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edge_agent.adapters.device import battery as battery_module
from edge_agent.adapters.device.battery import NO_BATTERY, Battery, BatteryReading
from edge_agent.adapters.device.memory import (
    anonymous_nbytes,
    peak_rss_nbytes,
    rss_nbytes,
    trim,
    trimming,
)
from edge_agent.adapters.device.readings import Sensors

ROOT = Path(__file__).parents[3]
UEVENT = """POWER_SUPPLY_NAME=battery
POWER_SUPPLY_TYPE=Battery
POWER_SUPPLY_STATUS=Discharging
POWER_SUPPLY_CAPACITY=81
POWER_SUPPLY_CHARGE_COUNTER=2955000
POWER_SUPPLY_CURRENT_NOW=-312000
POWER_SUPPLY_TEMP=287
"""
TERMUX = """#!/bin/sh
echo '{"percentage": 64, "status": "CHARGING", "temperature": 31.5, "current": 512000,
 "charge_counter": 1900000, "voltage": 4100}'
"""


def command(folder: Path, text: str) -> str:
    path = folder / "termux-battery-status"
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_kernels_battery_is_read(tmp_path: Path):
    for name, text in (("AC", "POWER_SUPPLY_TYPE=Mains\n"), ("battery", UEVENT)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "uevent").write_text(text)
    assert Battery(tmp_path).read() == BatteryReading(81, 2955000, -312000, False, 28.7)


def test_termux_is_asked_where_the_kernel_says_nothing(tmp_path: Path):
    battery = Battery(tmp_path / "none", command(tmp_path, TERMUX))
    assert battery.read_now() == BatteryReading(64, 1900000, 512000, True, 31.5)


def test_termux_is_asked_at_most_every_thirty_seconds(tmp_path: Path):
    battery = Battery(tmp_path / "none", command(tmp_path, "#!/bin/sh\necho x >>$0.calls\n"))
    for _ in range(5):
        battery.read_now()
    assert (tmp_path / "termux-battery-status.calls").read_text() == "x\n"


def test_a_termux_that_hangs_delays_nobody_and_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(battery_module, "TERMUX_LIMIT_S", 0.1)
    battery = Battery(tmp_path / "none", command(tmp_path, "#!/bin/sh\nexec sleep 60\n"))
    assert battery.read() == NO_BATTERY
    thread = next(thread for thread in threading.enumerate() if thread.name == "battery")
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    "said", ["", "not json", "[1]", '{"percentage": "NaN", "status": 7}', '{"percentage": null}']
)
def test_nonsense_from_termux_reads_as_nothing(tmp_path: Path, said: str):
    battery = Battery(tmp_path / "none", command(tmp_path, f"#!/bin/sh\necho '{said}'\n"))
    assert battery.read_now() == NO_BATTERY


def test_a_device_without_a_battery_reads_none(tmp_path: Path):
    assert Battery(tmp_path / "none", "").read() == NO_BATTERY


def test_readings_of_this_machine_are_sensible(tmp_path: Path):
    sensors = Sensors(tmp_path, Battery(tmp_path, ""), tmp_path)
    readings = sensors.read()
    assert 1 << 20 < readings.rss_nbytes <= readings.rss_peak_nbytes
    assert readings.memory_total_nbytes
    assert readings.memory_available_nbytes
    assert readings.memory_available_nbytes <= readings.memory_total_nbytes
    assert readings.disk_free_nbytes
    assert readings.temperature_c is None


def test_the_hottest_zone_counts_and_nonsense_does_not(tmp_path: Path):
    for number, text in enumerate(("41000", "52500", "-40000", "999000", "soon")):
        (tmp_path / f"thermal_zone{number}").mkdir()
        (tmp_path / f"thermal_zone{number}" / "temp").write_text(text)
    assert Sensors(tmp_path, Battery(tmp_path, ""), tmp_path).read().temperature_c == 52.5


def test_memory_is_counted_as_the_kernel_does():
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak_rss_nbytes() >= peak * 1024
    assert 0 < (anonymous_nbytes() or 0) < rss_nbytes() * 1.2


def test_trimming_gives_freed_memory_back_to_the_system():
    assert trimming()
    blocks = [bytes(1000) for _ in range(60_000)]
    keep = blocks[::4096]  # pins pages, so that free alone cannot give back the heap's top
    full = rss_nbytes()
    del blocks
    trim()
    assert rss_nbytes() < full - (30 << 20)
    assert len(keep) == 15


ANDROID = """
import ctypes, platform, sys
platform.uname()  # from Python 3.13 on it would ask Android's own library
sys.platform = "android"
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "psutil":
            raise NotImplementedError("platform android is not supported")
sys.meta_path.insert(0, Blocked())
from pathlib import Path
from edge_agent.adapters.device.battery import Battery
from edge_agent.adapters.device.readings import Sensors
readings = Sensors(Path("/tmp"), Battery()).read()
assert readings.rss_nbytes > 0 and readings.rss_peak_nbytes > 0
print(readings)
"""


def test_readings_work_where_the_platform_is_android_and_psutil_raises():
    done = subprocess.run(
        [sys.executable, "-c", ANDROID], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr
    assert "rss_nbytes=" in done.stdout
