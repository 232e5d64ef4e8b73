"""How long things take: fetch, load, compute and transfer, in seconds.

What was measured here comes first (tasks done, partitions loaded, profiles), then what the device
reads off itself, then a stated default. Measured values are smoothed, so that one slow task on a
busy phone does not turn a plan over. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from wire.ids import PartitionId
from wire.manifest import SegmentSpec
from wire.messages.telemetry import Telemetry

COST_PER_S = 2e10  # multiply-adds; a laptop's core does 1e11 in fp32, an old phone's 5e9
LINK_NBYTES_PER_S = 5e6  # a phone on crowded Wi-Fi
LOAD_NBYTES_PER_S = 3e8  # mapping and prepacking from flash
LINK_RTT_S = 0.02
SESSION_S = 0.02  # creating one ONNX Runtime session, without its weights
SMOOTHING = 0.3  # the share of the newest measurement
LEAST_S = 1e-6  # a clock's resolution: nothing takes no time


Key = TypeVar("Key")


class Estimates:
    """Keeps one smoothed number per device and thing; bounded by devices times partitions."""

    def __init__(self) -> None:
        self._task_s: dict[tuple[str, PartitionId], float] = {}
        self._segment_s: dict[tuple[str, str, bool, int], float] = {}
        self._cost_per_s: dict[str, float] = {}
        self._fetch_rate: dict[str, float] = {}
        self._load_rate: dict[str, float] = {}

    def learn_task(
        self, device: str, partition: PartitionId, cost: float, compute_s: float
    ) -> None:
        seconds = max(compute_s, LEAST_S)
        _smooth(self._task_s, (device, partition), seconds)
        if cost > 0:
            _smooth(self._cost_per_s, device, cost / seconds)

    def learn_profile(
        self, device: str, partition: PartitionId, segment_s: Sequence[float]
    ) -> None:
        for index, seconds in enumerate(segment_s, start=partition.first):
            key = (device, partition.model, partition.exact, index)
            _smooth(self._segment_s, key, max(seconds, LEAST_S))

    def learn_load(
        self, device: str, fetched_nbytes: int, fetch_s: float, loaded_nbytes: int, load_s: float
    ) -> None:
        if fetched_nbytes > 0 and fetch_s > LEAST_S:
            _smooth(self._fetch_rate, device, fetched_nbytes / fetch_s)
        if loaded_nbytes > 0 and load_s > LEAST_S:
            _smooth(self._load_rate, device, loaded_nbytes / load_s)

    def forget(self, device: str) -> None:
        for table in (self._cost_per_s, self._fetch_rate, self._load_rate):
            table.pop(device, None)
        self._task_s = {key: s for key, s in self._task_s.items() if key[0] != device}
        self._segment_s = {key: s for key, s in self._segment_s.items() if key[0] != device}

    def cost_per_s(self, device: str, readings: Telemetry | None) -> float:
        told = readings.cost_per_s if readings is not None else None
        return self._cost_per_s.get(device) or told or COST_PER_S

    def link_nbytes_per_s(self, device: str, readings: Telemetry | None) -> float:
        told = readings.link_nbytes_per_s if readings is not None else None
        return told or self._fetch_rate.get(device) or LINK_NBYTES_PER_S

    def compute_s(
        self,
        device: str,
        readings: Telemetry | None,
        partition: PartitionId,
        segments: Sequence[SegmentSpec],
    ) -> float:
        """One task: this partition as measured, its segments as profiled, or by its cost."""
        measured = self._task_s.get((device, partition))
        if measured is not None:
            return measured
        rate = self.cost_per_s(device, readings)
        key = (device, partition.model, partition.exact)
        return sum(
            self._segment_s.get((*key, segment.index), segment.cost / rate) for segment in segments
        )

    def fetch_s(self, device: str, readings: Telemetry | None, missing_nbytes: int) -> float:
        if missing_nbytes <= 0:
            return 0.0
        rate = self._fetch_rate.get(device) or self.link_nbytes_per_s(device, readings)
        return _rtt_s(readings) + missing_nbytes / rate

    def load_s(self, device: str, readings: Telemetry | None, nbytes: int, segments: int) -> float:
        told = readings.load_nbytes_per_s if readings is not None else None
        rate = self._load_rate.get(device) or told or LOAD_NBYTES_PER_S
        return SESSION_S * segments + nbytes / rate

    def transfer_s(self, device: str, readings: Telemetry | None, nbytes: int) -> float:
        """Until `nbytes` of a frame have come to the device; the slower end is taken as its."""
        return _rtt_s(readings) + nbytes / self.link_nbytes_per_s(device, readings)


def _rtt_s(readings: Telemetry | None) -> float:
    told = readings.link_rtt_s if readings is not None else None
    return LINK_RTT_S if told is None else told


def _smooth(table: dict[Key, float], key: Key, value: float) -> None:
    before = table.get(key)
    table[key] = value if before is None else before + SMOOTHING * (value - before)
