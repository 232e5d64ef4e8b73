"""The figures of a demonstration as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from crowdpipe.cli.quantities import show_nbytes, show_seconds
from crowdpipe.cli.tables import plain_table, show_range
from crowdpipe.demo.figures import DemoFigures, DeviceFigures, PhaseFigures

ANSWERS_SHOWN = 6
TIERS_LISTED = 3


def device_tables(devices: Sequence[DeviceFigures]) -> tuple[Table, Table]:
    """Two, so that no heading need be shortened in a terminal of 80 columns."""
    memory = plain_table(
        "device",
        "~segments",
        ">loads by tier",
        ">tasks",
        ">budget",
        ">peak RSS",
        ">above runtime",
        title="Devices: what they served, and memory in MiB",
    )
    effort = plain_table(
        "device",
        ">received",
        ">sent",
        ">fetched",
        ">fetching",
        ">loading",
        ">computing",
        title="Devices: traffic in MiB, time in seconds",
    )
    for device in devices:
        memory.add_row(*_memory_row(device))
        effort.add_row(*_effort_row(device))
    return memory, effort


def _memory_row(device: DeviceFigures) -> tuple[str, ...]:
    return (
        device.name,
        ", ".join(show_range(*partition) for partition in device.partitions) or "–",
        _tiers([load.tier for load in device.loads]),
        str(device.tasks),
        _mebibytes(device.memory_budget_nbytes),
        _mebibytes(device.rss_peak_nbytes or None),
        _mebibytes(device.rss_rise_nbytes),
    )


def _effort_row(device: DeviceFigures) -> tuple[str, ...]:
    return (
        device.name,
        _mebibytes(device.received_nbytes),
        _mebibytes(device.sent_nbytes),
        _mebibytes(device.fetched_nbytes),
        f"{device.fetch_s:.2f}",
        f"{device.load_s:.2f}",
        f"{device.compute_s:.2f}",
    )


def _tiers(tiers: Sequence[int]) -> str:
    """Each load's tier, or how many loads there were of each where that would be long."""
    if len(tiers) <= TIERS_LISTED:
        return ",".join(map(str, tiers)) or "–"
    return " ".join(f"{tiers.count(tier)}×{tier}" for tier in sorted(set(tiers)))


def _mebibytes(nbytes: int | None) -> str:
    return "–" if nbytes is None else f"{nbytes / (1 << 20):.1f}"


def run_table(figures: DemoFigures) -> Table:
    table = plain_table(
        "how",
        ">batch",
        ">first result",
        ">items/s",
        ">results",
        ">difference",
        title=f"{figures.items} items, each through all of {figures.model.name}",
    )
    labels = ("streaming, cold", "streaming", "barrier")
    for label, phase in zip(labels, figures.phases, strict=True):
        table.add_row(*_phase_row(label, phase, figures.items))
    single = figures.single_process
    table.add_row(
        "one process, whole model",
        show_seconds(single.latency_s),
        "–",
        f"{figures.items / single.latency_s:.1f}",
        f"{figures.items}/{figures.items}",
        "–",
    )
    return table


def _phase_row(label: str, phase: PhaseFigures, items: int) -> tuple[str, ...]:
    difference = "no bit" if phase.identical else f"{phase.max_rel_diff:.1e}"
    return (
        label,
        show_seconds(phase.latency_s),
        show_seconds(phase.first_result_s),
        f"{phase.throughput_per_s:.1f}",
        f"{phase.results}/{items}",
        difference if phase.results else "–",
    )


def answer_table(figures: DemoFigures) -> Table | None:
    """A few of the answers, spread over all items; None if the items were no sentences."""
    if not figures.answers:
        return None
    table = plain_table(
        "~sentence", "~nearest of the others", ">likeness", title="What the model finds most alike"
    )
    step = max(1, len(figures.answers) // ANSWERS_SHOWN)
    for answer in figures.answers[::step][:ANSWERS_SHOWN]:
        table.add_row(answer.sentence, answer.nearest, f"{answer.likeness:.2f}")
    return table


def conclusions(figures: DemoFigures) -> list[str]:
    """Sentences that say what the tables mean."""
    told = []
    faster = 1 - figures.streaming.latency_s / figures.barrier.latency_s
    if faster > 0:
        told.append(f"Streaming took {faster:.0%} less time than the barrier.")
    told.append(_beside_one_process(figures))
    whole = figures.single_process.rss_peak_nbytes
    largest = max(figures.devices, key=lambda device: device.rss_peak_nbytes, default=None)
    if largest is not None and 0 < largest.rss_peak_nbytes < whole:
        told.append(
            f"One process with the whole model peaks at "
            f"{show_nbytes(whole)}; the largest device at "
            f"{show_nbytes(largest.rss_peak_nbytes)}, which is "
            f"{show_nbytes(largest.rss_rise_nbytes)} above its runtime alone."
        )
    if figures.answers:
        same = sum(answer.same_as_whole_model for answer in figures.answers)
        told.append(f"{same} of {len(figures.answers)} answers are the whole model's own.")
    return told


def _beside_one_process(figures: DemoFigures) -> str:
    """Who was faster, and what a crowd is for where one process was."""
    times = figures.streaming.latency_s / figures.single_process.latency_s
    count = len(figures.devices)
    if times <= 1:
        return f"The {count} devices were {1 / times:.1f} times as fast as one process."
    return (
        f"One process was {times:.1f} times as fast as the {count} devices, which share this "
        "machine's processors with all the rest: who has room for the whole model needs no crowd. "
        "It is for models that no device of yours holds alone."
    )
