"""What one device of a crowd says of itself: names, births, readings.

Devices are numbered and differ: no two in a row are equally fast. Nothing is kept here, so that a
crowd takes no memory beside the orchestrator's.
"""

from __future__ import annotations

from wire import WIRE_VERSION
from wire.messages.residency import PartitionResidency, Residency
from wire.messages.state import Capabilities, DeviceState, Status
from wire.messages.telemetry import Telemetry

MIB = 1 << 20
FORMER_STAMP = (1, 1)  # of the assignment that an earlier orchestrator left with every device
FASTEST = 4e10  # multiply-adds a second
SPEEDS = 97  # different ones, a prime, so that neighbours differ


def name_of(number: int) -> str:
    return f"device-{number:05d}"


def boot_of(name: str) -> str:
    return f"boot-of-{name}"


def connection_of(name: str, count: int) -> str:
    """The id of its connection number `count`."""
    return f"{name}-connection-{count}"


def state_of(number: int, connection: str, status: Status = "online") -> DeviceState:
    able = Capabilities(
        memory_budget_nbytes=(120 + number % 7 * 20) * MIB,
        disk_budget_nbytes=4096 * MIB,
        hold_nbytes=256 * MIB,
        cores=8,
        architecture="aarch64",
        runtime_version="1.20.0",
        max_opset=21,
        platform="android",
        python_version="3.12.5",
    )
    boot = boot_of(name_of(number))
    shown = able if status == "online" else None
    return DeviceState(status, connection, boot, "0.1.0", WIRE_VERSION, shown)


def telemetry_of(number: int, connection: str, uptime_s: float) -> Telemetry:
    """All that a phone can read."""
    return Telemetry(
        connection=connection,
        uptime_s=uptime_s,
        rss_nbytes=61_000_000 + number,
        rss_peak_nbytes=92_000_000 + number,
        rss_floor_nbytes=21_000_000,
        queue_depth=0,
        held_nbytes=0,
        memory_total_nbytes=4096 * MIB,
        memory_available_nbytes=1500 * MIB + number,
        disk_free_nbytes=20_000 * MIB + number,
        cpu_percent=3.5,
        cpu_seconds=uptime_s / 20,
        battery_percent=77.0,
        battery_charge_uah=2_900_000 + number,
        battery_current_ua=-180_000,
        battery_charging=False,
        temperature_c=31.5,
        link_rtt_s=0.004,
        link_nbytes_per_s=6e6,
        load_nbytes_per_s=2e8,
        cost_per_s=FASTEST / (1 + number * 31 % SPEEDS / 20),
    )


def residency_of(
    connection: str,
    stamp: tuple[int, int] = FORMER_STAMP,
    partitions: tuple[PartitionResidency, ...] = (),
) -> Residency:
    return Residency(connection, *stamp, partitions, 6, 3 * 22 * MIB)
