"""Memory of one agent: the paper's three cells and the whole model, against a plain session.

A fresh agent for each, which has fetched and prepared the partition in an earlier life, with the
smallest budget in a list that it takes the partition with, or less if that is above the target.
Its peak (VmHWM of the whole process) is compared with the floor, the same interpreter with the
same modules imported. Then an agent with room for everything. Inputs alternate with those of a
plain session of the same cell in a process of its own. At last one agent swaps five partitions in
and out, and its memory is looked at after each round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.bench import Bench, Outcome, Picture
from benchmarks.cells import Cell, Cells, make_cells
from benchmarks.chart import Chart, Line, Mark
from benchmarks.desk import Desk, Ready, Span, given
from benchmarks.floor import floor_nbytes
from benchmarks.page_cache import forget
from benchmarks.process import MIB, Memory, memory, rss_nbytes
from benchmarks.rounds import Measure, take_turns
from benchmarks.row import Rival, Row, Target, at_most, measured
from benchmarks.sampler import Sampler
from benchmarks.spread import spread
from benchmarks.whole import WholeModel
from crowdpipe.demo.comparison import compare
from crowdpipe.demo.figures import TOLERANCE
from orchestrator.planner.offers import Offer
from orchestrator.planner.partitioning import partition
from wire.errors import OverBudget
from wire.manifest import Manifest

MB = 1e6
MS = 1e3
RISE_MB = 43.0
TIME_SHARE = 1.2
TIME_MORE_S = 1e-3
DRIFT_MB = 2.0
SETTLED_ROUNDS = 5  # of swapping, before memory is expected to be flat
SWAPPED = 5
LOOKS, LOOK_S = 5, 0.02  # at memory after each of them
GROWING = tuple(size * MIB for size in (40, 64, 96, 128, 192, 256, 384, 512, 1024))
SHRINKING = tuple(size * MIB for size in (32, 24, 16, 12))
ROOMY_NBYTES = 2 << 30
TITLES = {
    "cell1": "embeddings and first layers",
    "cell2": "other layers",
    "cell3": "head",
    "whole": "the whole model",
}


@dataclass(frozen=True, slots=True)
class Served:
    """One cell on one agent. Seconds of each item; `cold` with nothing of it in the page cache."""

    budget_nbytes: int
    ready: Ready
    ours_s: list[float]
    theirs_s: list[float]
    cold_s: list[float]
    memory: Memory
    first_peak_nbytes: int
    difference: float
    trace: list[tuple[float, float]]


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    items = bench.pick(3, 5)
    with Desk(bench.folder("desk")) as desk:
        cells = make_cells(desk, bench.given, bench.folder("cells"), items)
        floor = floor_nbytes()
        for cell in cells.cells:
            with WholeModel(cell.plain, cell.items) as rival:
                small = _smallest(bench, desk, cells.manifest, cell, rival, floor)
                roomy = _served(bench, desk, cells.manifest, cell, rival, ROOMY_NBYTES)
                rise = rival.peak_nbytes() - rival.floor_nbytes
            outcome.rows += _rows(cell, small, roomy, floor, rise)
            if cell.name == "whole":
                outcome.pictures.append(_over_time(bench, small, roomy, floor, rise))
        outcome.rows += _swap_rows(bench, desk, cells, outcome)
    outcome.pictures.append(_per_device(bench, floor))
    return outcome


# --- one cell ---------------------------------------------------------------------------------


def _smallest(
    bench: Bench,
    desk: Desk,
    manifest: Manifest,
    cell: Cell,
    rival: WholeModel,
    floor_nbytes: int,
) -> Served:
    """With the first budget that the agent takes it with; with less if it is above the target all
    the same, as long as the agent takes that."""
    taken = _first_taken(lambda size: _served(bench, desk, manifest, cell, rival, size), GROWING)
    for budget in SHRINKING:
        if (taken.memory.peak_nbytes - floor_nbytes) / MB <= RISE_MB:
            break
        try:
            taken = _served(bench, desk, manifest, cell, rival, budget)
        except OverBudget:
            break
    return taken


def _first_taken(serve: Callable[[int], Served], budgets: Sequence[int]) -> Served:
    refusal = OverBudget("no budget was tried")
    for budget in budgets:
        try:
            return serve(budget)
        except OverBudget as error:
            refusal = error
    raise refusal


def _served(
    bench: Bench,
    desk: Desk,
    manifest: Manifest,
    cell: Cell,
    rival: WholeModel,
    budget_nbytes: int,
) -> Served:
    """A fresh agent that fetches, prepares what is prepared once and runs an item; then another
    life of it, which is measured."""
    name = f"{cell.name}-{budget_nbytes // MIB}"
    with desk.agent(name, budget_nbytes) as pid:
        desk.load(name, given(manifest, cell.span))
        desk.compute(name, manifest, cell.span, cell.inputs[0])
        first_peak_nbytes = memory(pid).peak_nbytes
    with ExitStack() as stack:
        pid = stack.enter_context(desk.agent(name, budget_nbytes))
        sampler = stack.enter_context(Sampler({name: pid}))
        ready = desk.load(name, given(manifest, cell.span))
        outputs = [desk.compute(name, manifest, cell.span, each)[0] for each in cell.inputs]
        contenders: dict[str, Measure] = {
            "ours": lambda: desk.compute(name, manifest, cell.span, cell.inputs[0])[1].compute_s,
            "theirs": lambda: rival.run(1)[0],
        }
        found = take_turns(contenders, bench.pick(8, 30))
        cold = [_cold(desk, name, manifest, cell) for _ in range(bench.pick(3, 10))]
        taken = memory(pid)
    pairs = zip(outputs, cell.outputs, strict=True)
    ours = [{key: each[key] for key in plain} for each, plain in pairs]
    return Served(
        budget_nbytes,
        ready,
        found["ours"],
        found["theirs"],
        cold,
        taken,
        first_peak_nbytes,
        compare(ours, cell.outputs).max_rel_diff,
        sampler.traces[name],
    )


def _cold(desk: Desk, name: str, manifest: Manifest, cell: Cell) -> float:
    forget(desk.folder(name))
    return desk.compute(name, manifest, cell.span, cell.inputs[0])[1].compute_s


def _rows(
    cell: Cell, small: Served, roomy: Served, floor_nbytes: int, plain_nbytes: int
) -> Iterator[Row]:
    title = TITLES[cell.name]
    budget = f"budget {small.budget_nbytes // MIB} MiB"
    how = "streamed" if small.ready.loaded.streamed else "resident"
    note = f"{how}, {budget}; {small.memory.anonymous_nbytes / MB:.0f} MB of all is anonymous"
    peak = small.memory.peak_nbytes
    yield measured(
        f"memory.{cell.name}_rise",
        f"{title}: peak above the floor of {floor_nbytes / MB:.0f} MB",
        [(peak - floor_nbytes) / MB],
        "MB",
        at_most(RISE_MB),
        Rival("plain session", plain_nbytes / MB),
        note,
    )
    yield measured(
        f"memory.{cell.name}_first_rise",
        f"{title}: the same of the process that fetched it and prepared it once",
        [(small.first_peak_nbytes - floor_nbytes) / MB],
        "MB",
        at_most(RISE_MB),
    )
    yield measured(f"memory.{cell.name}_peak", f"{title}: peak of the process", [peak / MB], "MB")
    yield _time_row(cell, "time", f"{title}: time", small, small.ours_s, note=f"{how}, {budget}")
    yield _time_row(
        cell, "cold_time", f"{title}: time, page cache cold", small, small.cold_s, plain=True
    )
    streamed = "streamed although there is room" if roomy.ready.loaded.streamed else "resident"
    yield _time_row(
        cell, "roomy_time", f"{title}: time on a device with room", roomy, roomy.ours_s, streamed
    )
    roomy_rise = (roomy.memory.peak_nbytes - floor_nbytes) / MB
    yield measured(
        f"memory.{cell.name}_roomy_rise",
        f"{title}: peak above the floor on a device with room",
        [roomy_rise],
        "MB",
        rival=Rival("plain session", plain_nbytes / MB),
    )
    yield measured(
        f"memory.{cell.name}_difference",
        f"{title}: largest difference from the plain session's outputs",
        [max(small.difference, roomy.difference)],
        "",
        at_most(TOLERANCE),
    )


def _time_row(
    cell: Cell,
    name: str,
    says: str,
    served: Served,
    ours_s: list[float],
    note: str = "",
    plain: bool = False,
) -> Row:
    theirs_s = spread(served.theirs_s).median
    return measured(
        f"memory.{cell.name}_{name}",
        says,
        [MS * each for each in ours_s],
        "ms",
        None if plain else _time_target(theirs_s),
        Rival("plain session", MS * theirs_s),
        note,
    )


def _time_target(theirs_s: float) -> Target:
    """A fifth more than the rival, or a millisecond if that is more."""
    return at_most(MS * max(TIME_SHARE * theirs_s, theirs_s + TIME_MORE_S))


def _over_time(
    bench: Bench, small: Served, roomy: Served, floor_nbytes: int, plain_nbytes: int
) -> Picture:
    """The whole model on one agent: loading twice, then items."""
    lines = tuple(
        Line(name, tuple((at_s, nbytes / MB) for at_s, nbytes in served.trace))
        for name, served in (
            (f"budget {small.budget_nbytes // MIB} MiB", small),
            ("with room", roomy),
        )
    )
    marks = (
        Mark("floor", floor_nbytes / MB),
        Mark("plain session, peak", (floor_nbytes + plain_nbytes) / MB),
    )
    chart = Chart(
        f"{bench.given.name}: the whole model on one agent",
        "seconds since the agent started",
        "resident memory, MB",
        lines,
        marks,
        y_from=0.0,
    )
    return Picture("memory-whole.svg", chart.svg())


def _per_device(bench: Bench, floor_nbytes: int) -> Picture:
    """The five agents of the fleet from the first item on: nothing was there before."""
    fleet = bench.fleet()
    lines = tuple(
        Line(name, tuple((at_s, nbytes / MB) for at_s, nbytes in trace))
        for name, trace in bench.cold_traces.items()
    )
    chart = Chart(
        f"{fleet.work.name}: five agents begin to serve, from an empty cache",
        "seconds since the first item was submitted",
        "resident memory, MB",
        lines,
        (Mark("floor", floor_nbytes / MB),),
        y_from=0.0,
    )
    return Picture("memory-devices.svg", chart.svg())


# --- swapping ---------------------------------------------------------------------------------


def even_spans(manifest: Manifest, count: int) -> tuple[Span, ...]:
    """As many partitions of even cost, as the planner makes them for equal devices."""
    offers = [
        Offer(ROOMY_NBYTES, ROOMY_NBYTES, ROOMY_NBYTES, 99, 1e10, 1e9, f"d{number}")
        for number in range(count)
    ]
    wanted = min(count, len(manifest.segments))
    return tuple(Span(each.first, each.last) for each in partition(manifest, offers, wanted))


def _at_rest(pid: int) -> int:
    """The least of some looks: what is under way when the last output comes is gone soon."""
    looks = []
    for _ in range(LOOKS):
        looks.append(rss_nbytes(pid))
        time.sleep(LOOK_S)
    return min(looks)


def _swap_rows(bench: Bench, desk: Desk, cells: Cells, outcome: Outcome) -> Iterator[Row]:
    spans = even_spans(cells.manifest, SWAPPED)
    rounds = bench.pick(15, 50)
    whole = cells.cells[-1]
    rss: list[float] = []
    round_s: list[float] = []
    with desk.agent("swapper", ROOMY_NBYTES) as pid:
        desk.assign("swapper", [given(cells.manifest, span) for span in spans])
        for _ in range(rounds):
            begun = time.monotonic()
            values = whole.inputs[0]
            for span in spans:
                values = desk.compute("swapper", cells.manifest, span, values)[0]
            round_s.append((time.monotonic() - begun) / len(spans))
            rss.append(_at_rest(pid) / MB)
    settled = rss[SETTLED_ROUNDS:]
    yield measured(
        "memory.swap_drift",
        f"{rounds} rounds of swapping {len(spans)} partitions: memory after a round, highest less "
        f"lowest from round {SETTLED_ROUNDS + 1} on",
        [max(settled) - min(settled)],
        "MB",
        at_most(DRIFT_MB),
    )
    yield measured(
        "memory.swap_time",
        "from one partition to the next: unload, load, one item",
        [MS * each for each in round_s],
        "ms",
    )
    difference = compare([{name: values[name] for name in whole.outputs[0]}], whole.outputs[:1])
    if not math.isfinite(difference.max_rel_diff) or difference.max_rel_diff > TOLERANCE:
        yield measured(
            "memory.swap_difference",
            "the last round's outputs differ from the whole model's",
            [min(difference.max_rel_diff, 1e9)],
            "",
            at_most(TOLERANCE),
        )
    chart = Chart(
        f"{bench.given.name}: swapping {len(spans)} partitions on one agent",
        "rounds",
        "resident memory after the round, MB",
        (Line("agent", tuple(enumerate(rss, 1)), dots=True),),
        y_from=0.0,
        counted=True,
    )
    outcome.pictures.append(Picture("memory-swapping.svg", chart.svg()))
