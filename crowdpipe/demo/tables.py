"""The figures of a demonstration as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from crowdpipe.cli.quantities import show_nbytes, show_seconds
from crowdpipe.demo.figures import DemoFigures, DeviceFigures, PhaseFigures

ANSWERS_SHOWN = 6


def show_range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def device_table(devices: Sequence[DeviceFigures]) -> Table:
    table = Table(title="Devices", title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("device", no_wrap=True)
    for heading in (
        "segments",
        "tier of\nits loads",
        "memory\nbudget",
        "peak\nRSS",
        "over\nfloor",
        "frames\nin",
        "frames\nout",
        "fetched",
        "fetch",
        "load",
        "tasks",
        "compute",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for device in devices:
        table.add_row(*_device_row(device))
    return table


def _device_row(device: DeviceFigures) -> tuple[str, ...]:
    return (
        device.name,
        ", ".join(show_range(*partition) for partition in device.partitions) or "–",
        ", ".join(str(load.tier) for load in device.loads) or "–",
        show_nbytes(device.memory_budget_nbytes),
        show_nbytes(device.rss_peak_nbytes or None),
        show_nbytes(device.rss_rise_nbytes),
        show_nbytes(device.received_nbytes),
        show_nbytes(device.sent_nbytes),
        show_nbytes(device.fetched_nbytes),
        show_seconds(device.fetch_s),
        show_seconds(device.load_s),
        str(device.tasks),
        show_seconds(device.compute_s),
    )


def run_table(figures: DemoFigures) -> Table:
    table = Table(
        title=f"{figures.items} items, each through all of {figures.model.name}",
        title_justify="left",
        title_style="bold",
        pad_edge=False,
    )
    table.add_column("how", no_wrap=True)
    for heading in ("batch", "first result", "items/s", "results", "worst difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    labels = ("streaming, cold (with fetch and load)", "streaming", "barrier")
    for label, phase in zip(labels, figures.phases, strict=True):
        table.add_row(*_phase_row(label, phase, figures.items))
    single = figures.single_process
    table.add_row(
        "one process, whole model, 1 thread",
        show_seconds(single.latency_s),
        "–",
        f"{figures.items / single.latency_s:.1f}",
        f"{figures.items}/{figures.items}",
        "(the measure)",
    )
    return table


def _phase_row(label: str, phase: PhaseFigures, items: int) -> tuple[str, ...]:
    difference = "none, bit for bit" if phase.identical else f"{phase.max_rel_diff:.1e}"
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
    table = Table(
        title="What the model finds most alike",
        title_justify="left",
        title_style="bold",
        pad_edge=False,
    )
    table.add_column("sentence")
    table.add_column("nearest of the others")
    table.add_column("likeness", justify="right")
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
    rises = [device.rss_rise_nbytes for device in figures.devices if device.tasks]
    if rises:
        told.append(
            f"The whole model takes {show_nbytes(figures.single_process.rss_peak_nbytes)} in one "
            f"process; no device rose more than {show_nbytes(max(rises))} above its idle floor."
        )
    if figures.answers:
        same = sum(answer.same_as_whole_model for answer in figures.answers)
        told.append(f"{same} of {len(figures.answers)} answers are the whole model's own.")
    return told
