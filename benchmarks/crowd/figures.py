"""From measured sizes to rows and charts. Arithmetic only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from benchmarks.bench import Picture
from benchmarks.chart import Chart, Line, Mark
from benchmarks.crowd.crowd import COMINGS
from benchmarks.crowd.sizes import FIRST_ITEMS, ITEMS, Size
from benchmarks.rounds import shares
from benchmarks.row import Rival, Row, Target, at_most, measured, skipped

ITEM_GROWTH = 1.3
DEVICE_KB = 12.0
PLAN_S = {1_000: 2.0, 10_000: 5.0}
KB = 1e3
US_PER_MS = 1e3
COUNTED_FROM = 1_000  # below, memory is lost in what an interpreter takes now and then
KINDS = {
    "telemetry": "a telemetry message",
    "residency": "a residency message of a device that serves nothing",
    "events": "a batch of a serving device's events",
    "state": "a device's birth or farewell",
    "input_stored": "an input that is on disk",
    "result": "a result that arrives",
}


@dataclass(frozen=True, slots=True)
class Axis:
    """What is counted: `of` a size, as `word`; `name` is the end of rows' names."""

    name: str
    word: str
    of: Callable[[Size], int]

    def told(self, size: Size) -> str:
        return f"{self.of(size):,} {self.word}"


DEVICES = Axis("devices", "devices", lambda size: size.devices)
RUNS = Axis("runs", "idle runs", lambda size: size.runs)


def device_rows(sizes: Sequence[Size]) -> Iterator[Row]:
    """`sizes` from the smallest on, as everywhere here."""
    yield from _item_rows(sizes, DEVICES)
    for kind, says in KINDS.items():
        yield _kind_row(kind, says, sizes, DEVICES)
    yield _longest_row(sizes)
    yield _comings_row(sizes)
    yield _memory_row(sizes[-1], DEVICES, at_most(DEVICE_KB))
    yield _start_row(sizes[-1], DEVICES)
    yield from (_plan_row(size) for size in sizes)


def run_rows(sizes: Sequence[Size]) -> Iterator[Row]:
    yield from _item_rows(sizes, RUNS)
    yield _kind_row("telemetry", KINDS["telemetry"], sizes, RUNS)
    yield _memory_row(sizes[-1], RUNS, None)
    yield _start_row(sizes[-1], RUNS)


def _item_rows(sizes: Sequence[Size], axis: Axis) -> Iterator[Row]:
    for size in sizes:
        yield _row(
            f"growth.item_{axis.of(size)}_{axis.name}",
            f"an item's whole way through the orchestrator's machine, {axis.told(size)}: "
            "processor time",
            size.items_us(),
            "us",
            size.why,
        )
    least, most = sizes[0], sizes[-1]
    yield _row(
        f"growth.item_{axis.name}_growth",
        f"an item with {axis.told(most)}, against one with {axis.told(least)}",
        _against(most.items_us(), least.items_us()),
        "x",
        most.why and _so_far(sizes, axis),
        at_most(ITEM_GROWTH),
        Rival(*_straight(most, least, axis)),
    )


def _so_far(sizes: Sequence[Size], axis: Axis) -> str:
    """Why the largest could not be measured, and how far it went up to those that could."""
    least, most = sizes[0], sizes[-1]
    measured_ones = [size for size in sizes[1:] if size.rounds and least.rounds]
    if not measured_ones:
        return most.why
    last = measured_ones[-1]
    growth = median(_against(last.items_us(), least.items_us()))
    return f"{most.why}; {axis.told(last)}: {growth:.1f} times"


def _against(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Of the rounds that both have."""
    both = min(len(ours), len(theirs))
    return shares(ours[:both], theirs[:both])


def _straight(most: Size, least: Size, axis: Axis) -> tuple[str, float]:
    return "in proportion", axis.of(most) / axis.of(least)


def _kind_row(kind: str, says: str, sizes: Sequence[Size], axis: Axis) -> Row:
    least, most = sizes[0], sizes[-1]
    first = least.each_us(kind)
    return _row(
        f"growth.{kind}_{axis.name}",
        f"{says}, {axis.told(most)}: processor time",
        most.each_us(kind),
        "us",
        most.why,
        rival=Rival(axis.told(least), median(first)) if first else None,
    )


def _longest_row(sizes: Sequence[Size]) -> Row:
    least, most = sizes[0], sizes[-1]
    return _row(
        "growth.longest_devices",
        f"the longest that one event keeps the machine while items run, {DEVICES.told(most)}",
        [most.longest_ms()] if most.rounds else [],
        "ms",
        most.why,
        rival=Rival(DEVICES.told(least), least.longest_ms()) if least.rounds else None,
    )


def _comings_row(sizes: Sequence[Size]) -> Row:
    least, most = sizes[0], sizes[-1]
    first = least.items_with_comings_us()
    return _row(
        "growth.item_with_comings_devices",
        f"an item while {COMINGS} devices that serve nothing connect anew, "
        f"{DEVICES.told(most)}: processor time",
        most.items_with_comings_us(),
        "us",
        most.why,
        rival=Rival(DEVICES.told(least), first[0]) if first else None,
    )


def _memory_row(size: Size, axis: Axis, target: Target | None) -> Row:
    nbytes = size.memory_nbytes()
    return _row(
        f"growth.memory_per_{axis.name.removesuffix('s')}",
        f"memory that is not given back, for each of {axis.told(size)}",
        [nbytes / axis.of(size) / KB] if nbytes is not None else [],
        "KB",
        size.why,
        target,
    )


def _start_row(size: Size, axis: Axis) -> Row:
    costs = size.start.costs if size.start is not None else {}
    return _row(
        f"growth.start_{axis.name}",
        f"start of the machine with all that is retained of {axis.told(size)}: processor time",
        [cost.nanoseconds / 1e9 for cost in costs.values()],
        "s",
        size.why,
    )


def _plan_row(size: Size) -> Row:
    limit = PLAN_S.get(size.devices)
    return _row(
        f"growth.first_run_{size.devices}_devices",
        f"the first run of {FIRST_ITEMS} items, for which a plan is searched, "
        f"{DEVICES.told(size)} that all differ",
        [size.first.wall_s] if size.first is not None else [],
        "s",
        size.why,
        at_most(limit) if limit is not None else None,
    )


def _row(
    name: str,
    says: str,
    values: Sequence[float],
    unit: str,
    why: str,
    target: Target | None = None,
    rival: Rival | None = None,
) -> Row:
    """What was measured, or why nothing was."""
    if values:
        return measured(name, says, values, unit, target, rival)
    return skipped(name, says, unit, why, target)


def device_picture(sizes: Sequence[Size]) -> Picture:
    kinds = ("events", "telemetry", "state")
    title = "What the orchestrator does for an item and for an event, against devices"
    return Picture("growth-devices.svg", _chart(title, sizes, DEVICES, kinds).svg())


def run_picture(sizes: Sequence[Size]) -> Picture:
    title = "What the orchestrator does for an item and for an event, against idle runs"
    chart = _chart(title, sizes, RUNS, ("events", "telemetry", "submit"))
    return Picture("growth-runs.svg", chart.svg())


SHORT = {
    "events": "a batch of events",
    "telemetry": "a telemetry message",
    "state": "a birth or farewell",
    "submit": "a run submitted",
}


def _chart(title: str, sizes: Sequence[Size], axis: Axis, kinds: Sequence[str]) -> Chart:
    items = _points(sizes, axis, Size.items_us)
    lines = [Line(f"an item, of {ITEMS} in a run", items, dots=True)]
    for kind in kinds:
        points = _points(sizes, axis, partial(_each_us, kind))
        lines.append(Line(SHORT[kind], points, dots=True))
    marks = []
    if items:
        (x, y), last = items[0], axis.of(sizes[-1])
        lines.append(Line("an item, in proportion", ((x, y), (last, y * last / x)), dashed=True))
        marks.append(Mark(f"{ITEM_GROWTH:g} times an item at {x:,.0f}", ITEM_GROWTH * y))
    return Chart(
        title,
        axis.word,
        "milliseconds of a core",
        tuple(lines),
        tuple(marks),
        logarithmic=True,
    )


def _each_us(kind: str, size: Size) -> list[float]:
    return size.each_us(kind)


def _points(
    sizes: Sequence[Size], axis: Axis, values: Callable[[Size], list[float]]
) -> tuple[tuple[float, float], ...]:
    found = ((axis.of(size), values(size)) for size in sizes)
    return tuple((float(count), median(each) / US_PER_MS) for count, each in found if each)
