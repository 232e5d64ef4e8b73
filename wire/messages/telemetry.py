"""`devices/<d>/telemetry`: retained readings, every 10 s and when a threshold is crossed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What a device reads off itself; None where it has no such sensor or may not read it."""

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
