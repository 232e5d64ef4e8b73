"""When the retained telemetry is worth publishing again.

Every `telemetry_s`, and when a threshold is crossed, at most every `telemetry_least_s`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from edge_agent.machine.records.limits import AgentLimits
from wire.messages.telemetry import Telemetry

BATTERY_STEP_PERCENT = 5.0
TEMPERATURE_STEP_C = 2.0
MEMORY_STEP = 0.1  # of what was available when it was last published
RSS_STEP_NBYTES = 2 << 20  # a partition came or went, or a task needed more than any before


class TelemetrySchedule:
    """Keeps the newest readings; the depth of the queue comes from the machine."""

    def __init__(self, limits: AgentLimits) -> None:
        self._limits = limits
        self._readings: Telemetry | None = None  # the newest
        self._fresh = False  # they were not published
        self._unseen = False  # they were not compared with what was published
        self._last: Telemetry | None = None  # as published
        self._at = 0.0  # when
        self._pending = False  # perhaps a threshold is crossed; it was published just now

    def read(self, readings: Telemetry) -> None:
        self._readings, self._fresh, self._unseen = readings, True, True

    def due(
        self, queue_depth: int, held_nbytes: int, connection: str, now: float
    ) -> Telemetry | None:
        """What to publish now, if anything."""
        if self._readings is None or not self._may_be_due(queue_depth, connection, now):
            return None
        if not self._allowed(now):
            self._pending = True  # each item of a short queue crosses a threshold: compared in time
            return None
        current = replace(
            self._readings,
            connection=connection,
            queue_depth=queue_depth,
            held_nbytes=held_nbytes,
        )
        self._unseen = False
        crossed = self._last is None or any(rule(self._last, current) for rule in THRESHOLDS)
        self._pending = crossed
        if not (crossed or self._is_ripe(now)):
            return None
        self._last, self._at, self._fresh, self._pending = current, now, False, False
        return current

    def _is_ripe(self, now: float) -> bool:
        return self._fresh and now >= self._at + self._limits.telemetry_s

    def _may_be_due(self, queue_depth: int, connection: str, now: float) -> bool:
        """Asked with every event, so without looking at all the thresholds: they can only be
        crossed by new readings, or by one of these."""
        if self._last is None or self._unseen or self._pending or self._is_ripe(now):
            return True
        turned = (queue_depth == 0) != (self._last.queue_depth == 0)
        return turned or connection != self._last.connection

    def _allowed(self, now: float) -> bool:
        return self._last is None or now >= self._at + self._limits.telemetry_least_s

    def wake_at(self) -> float | None:
        return self._at + self._limits.telemetry_least_s if self._pending else None


def _reconnected(last: Telemetry, current: Telemetry) -> bool:
    return last.connection != current.connection


def _queue_turned(last: Telemetry, current: Telemetry) -> bool:
    return (last.queue_depth == 0) != (current.queue_depth == 0)


def _charger_changed(last: Telemetry, current: Telemetry) -> bool:
    return last.battery_charging != current.battery_charging


def _battery_stepped(last: Telemetry, current: Telemetry) -> bool:
    return _moved(last.battery_percent, current.battery_percent, BATTERY_STEP_PERCENT)


def _temperature_stepped(last: Telemetry, current: Telemetry) -> bool:
    return _moved(last.temperature_c, current.temperature_c, TEMPERATURE_STEP_C)


def _memory_moved(last: Telemetry, current: Telemetry) -> bool:
    before = last.memory_available_nbytes
    step = MEMORY_STEP * before if before else 1.0
    return _moved(before, current.memory_available_nbytes, step)


def _size_moved(last: Telemetry, current: Telemetry) -> bool:
    return _moved(last.rss_nbytes, current.rss_nbytes, RSS_STEP_NBYTES) or _moved(
        last.rss_peak_nbytes, current.rss_peak_nbytes, RSS_STEP_NBYTES
    )


def _moved(last: float | None, current: float | None, step: float) -> bool:
    if last is None or current is None:
        return last is not current
    return abs(current - last) >= step


THRESHOLDS: tuple[Callable[[Telemetry, Telemetry], bool], ...] = (
    _reconnected,
    _queue_turned,
    _charger_changed,
    _battery_stepped,
    _temperature_stepped,
    _memory_moved,
    _size_moved,
)
