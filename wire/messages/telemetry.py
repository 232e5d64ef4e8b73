"""`devices/<d>/telemetry`: retained readings, every 10 s and when a threshold is crossed.

What no sensor can have read is no reading, for whoever writes it and for whoever reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

from wire.record_readers import MAX_INT

POSSIBLE: dict[str, tuple[float, float]] = {
    "memory_total_nbytes": (0, 1 << 50),
    "memory_available_nbytes": (0, 1 << 50),
    "disk_free_nbytes": (0, MAX_INT),
    "cpu_percent": (0, 1e6),
    "cpu_seconds": (0, 1e12),
    "battery_percent": (0, 100),
    "battery_charge_uah": (-1e9, 1e9),
    "battery_current_ua": (-1e9, 1e9),
    "temperature_c": (-100, 300),
    "link_rtt_s": (0, 1e6),
    "link_nbytes_per_s": (0, 1e13),
    "load_nbytes_per_s": (0, 1e13),
    "cost_per_s": (0, 1e18),
}
"""The least and the most that a reading may be."""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What a device reads off itself; None where it has no such sensor, may not read it, or it
    says what is not `POSSIBLE`."""

    connection: str
    uptime_s: float
    rss_nbytes: int
    rss_peak_nbytes: int
    rss_floor_nbytes: int
    queue_depth: int
    held_nbytes: int
    memory_total_nbytes: int | None = None
    memory_available_nbytes: int | None = None
    disk_free_nbytes: int | None = None
    cpu_percent: float | None = None
    cpu_seconds: float | None = None
    battery_percent: float | None = None
    battery_charge_uah: int | None = None
    battery_current_ua: int | None = None
    battery_charging: bool | None = None
    temperature_c: float | None = None
    link_rtt_s: float | None = None
    link_nbytes_per_s: float | None = None
    load_nbytes_per_s: float | None = None
    cost_per_s: float | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in POSSIBLE.items():
            reading = getattr(self, name)
            if reading is not None and not least <= reading <= most:
                object.__setattr__(self, name, None)
