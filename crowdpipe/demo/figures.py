"""The figures of one demonstration, as they are printed and written by `--json`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from crowdpipe.demo.reference import SingleProcess
from crowdpipe.watching.observation import DeviceRecord, Observation, ObservedLoad
from wire.record import to_plain

TOLERANCE = 1e-5


@dataclass(frozen=True, slots=True)
class PhaseFigures:
    """One batch through the fleet. Latency: from submitting to the last result in hand."""

    name: str
    latency_s: float
    first_result_s: float | None
    throughput_per_s: float
    results: int
    max_rel_diff: float
    identical: bool


@dataclass(frozen=True, slots=True)
class NearestSentence:
    """What a person can judge: the sentence that the model finds most alike."""

    sentence: str
    nearest: str
    likeness: float
    same_as_whole_model: bool


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """One device over the whole demonstration. `rss_rise_nbytes`: peak over the runtime floor."""

    name: str
    partitions: tuple[tuple[int, int], ...]
    memory_budget_nbytes: int | None
    loads: tuple[ObservedLoad, ...]
    tasks: int
    rss_peak_nbytes: int
    rss_floor_nbytes: int
    rss_rise_nbytes: int
    received_nbytes: int
    sent_nbytes: int
    sent_raw_nbytes: int
    fetched_nbytes: int
    fetch_s: float
    load_s: float
    compute_s: float
    waited_s: float
    evictions: int
    failures: int
    drops: int


@dataclass(frozen=True, slots=True)
class ModelFigures:
    name: str
    digest: str
    nbytes: int
    segments: int


@dataclass(frozen=True, slots=True)
class DemoFigures:
    """`results` is the least number that any phase gave; `items` is what each should give."""

    items: int
    results: int
    exact: bool
    broker: str
    model: ModelFigures
    max_rel_diff: float
    cold: PhaseFigures
    streaming: PhaseFigures
    barrier: PhaseFigures
    single_process: SingleProcess
    devices: tuple[DeviceFigures, ...]
    answers: tuple[NearestSentence, ...]
    timeline: str
    elapsed_s: float

    @property
    def phases(self) -> tuple[PhaseFigures, ...]:
        return (self.cold, self.streaming, self.barrier)

    def failures(self) -> list[str]:
        """Why the demonstration did not succeed, in sentences; empty if it did."""
        told = []
        for phase in self.phases:
            lacking = self.items - phase.results
            if lacking:
                told.append(f"{phase.name}: {lacking} of {self.items} results are missing")
            if self.exact and not phase.identical:
                told.append(
                    f"{phase.name}: results are not bit for bit those of the whole model "
                    f"(worst difference {phase.max_rel_diff:.2g})"
                )
            elif not phase.max_rel_diff <= TOLERANCE:
                told.append(
                    f"{phase.name}: results differ from the whole model's by "
                    f"{phase.max_rel_diff:.2g}; at most {TOLERANCE:g} is allowed"
                )
        return told

    def plain(self) -> dict[str, object]:
        """As JSON has it."""
        made: dict[str, object] = to_plain(self)
        made["succeeded"] = not self.failures()
        return made


def device_figures(names: Iterable[str]) -> Callable[[Observation], tuple[DeviceFigures, ...]]:
    """Figures of these devices, in this order, once asked of an observation."""
    wanted = tuple(names)

    def ask(observation: Observation) -> tuple[DeviceFigures, ...]:
        seen = observation.devices
        return tuple(_device(seen.get(name) or DeviceRecord(name)) for name in wanted)

    return ask


def _device(record: DeviceRecord) -> DeviceFigures:
    capabilities = record.state.capabilities if record.state else None
    return DeviceFigures(
        name=record.name,
        partitions=record.served,
        memory_budget_nbytes=capabilities.memory_budget_nbytes if capabilities else None,
        loads=tuple(record.loads),
        tasks=record.tasks,
        rss_peak_nbytes=record.rss_peak_nbytes,
        rss_floor_nbytes=record.rss_floor_nbytes,
        rss_rise_nbytes=max(0, record.rss_peak_nbytes - record.rss_floor_nbytes),
        received_nbytes=record.received_nbytes,
        sent_nbytes=record.sent_nbytes,
        sent_raw_nbytes=record.sent_raw_nbytes,
        fetched_nbytes=record.fetched_nbytes,
        fetch_s=record.fetch_s,
        load_s=record.load_s,
        compute_s=record.compute_s,
        waited_s=record.waited_s,
        evictions=record.evictions,
        failures=record.failures,
        drops=record.drops,
    )
