"""Readings as the message that the machine completes and publishes."""

from __future__ import annotations

from bus.link import Link
from edge_agent.adapters.device.readings import Sensors
from edge_agent.adapters.runtime.executor import Executor
from edge_agent.adapters.store.spool import Spool
from wire.messages.telemetry import Telemetry


class TelemetryReader:
    """`rss_floor_nbytes` is the idle agent's RSS until ONNX Runtime is loaded, then the RSS with
    it and no partition."""

    def __init__(self, sensors: Sensors, executor: Executor, spool: Spool, link: Link) -> None:
        self._sensors = sensors
        self._executor = executor
        self._spool = spool
        self._link = link

    def read(self) -> Telemetry:
        readings = self._sensors.read()
        battery = readings.battery
        return Telemetry(
            connection="",
            uptime_s=readings.uptime_s,
            rss_nbytes=readings.rss_nbytes,
            rss_peak_nbytes=readings.rss_peak_nbytes,
            rss_floor_nbytes=self._executor.floor_nbytes or readings.rss_nbytes,
            queue_depth=0,
            held_nbytes=self._spool.nbytes,
            memory_total_nbytes=readings.memory_total_nbytes,
            memory_available_nbytes=readings.memory_available_nbytes,
            disk_free_nbytes=readings.disk_free_nbytes,
            cpu_percent=readings.cpu_percent,
            cpu_seconds=readings.cpu_seconds,
            battery_percent=battery.percent,
            battery_charge_uah=battery.charge_uah,
            battery_current_ua=battery.current_ua,
            battery_charging=battery.charging,
            temperature_c=readings.temperature_c,
            link_rtt_s=self._link.rtt_s,
            link_nbytes_per_s=self._link.nbytes_per_s,
            load_nbytes_per_s=self._executor.load_nbytes_per_s,
            cost_per_s=self._executor.cost_per_s,
        )
