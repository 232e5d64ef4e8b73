"""Streaming against barrier on emulated phones, and how near streaming comes to its bound.

Two works: the paper's (three cells, five items of 64 tokens), and five partitions of the
planner's choice with twenty items. Each phone has a share of a core, a rate and a delay (see
`rack`). Both modes are warm and take turns. The bound is worked out from what the stages took in
the same runs. Where phones cannot be emulated the rows say why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.bench import Bench, Outcome, Picture
from benchmarks.bound import Bound, bound_of
from benchmarks.chart import Chart, Line, Mark
from benchmarks.fleet import Fleet, FleetSpec
from benchmarks.rack import Phone, Rack, Unavailable
from benchmarks.rounds import shares, take_turns
from benchmarks.row import Rival, Row, at_least, measured, skipped
from benchmarks.spread import spread
from benchmarks.timeline_picture import timeline_svg
from benchmarks.work import Work
from crowdpipe.cli.tables import show_range
from crowdpipe.client.session import Session
from crowdpipe.demo.batch import Batch, run_batch
from crowdpipe.demo.timeline import Phase
from wire.errors import OperatorError

PHONES = 5
PHONE = Phone()
SHARE_OF_BOUND = 0.9
SAVING, WHERE_BOUND_ALLOWS = 0.34, 0.4
PAPER_ITEMS, PAPER_TOKENS = 5, 64
PLANNED_ITEMS = 20
SCALING_ITEMS = 12
MODES = ("streaming", "barrier")


@dataclass(frozen=True, slots=True)
class Case:
    """One work. `cut_after`: the cells, each of which is one partition."""

    name: str
    says: str
    work: Work
    partitions: int
    cut_after: tuple[str, ...] | None = None


@dataclass(slots=True)
class Taken:
    """Rounds of one case: seconds by mode, the bound of each streaming round, the last batches."""

    seconds: dict[str, list[float]]
    bounds: list[Bound] = field(default_factory=list)
    batches: dict[str, Batch] = field(default_factory=dict)
    plan: str = ""
    note: str = ""


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    try:
        with Rack(PHONES, PHONE) as rack:
            for case in _cases(bench.given):
                _measure(bench, rack, case, outcome)
    except Unavailable as error:
        outcome.rows += _skipped(bench.given, str(error))
    return outcome


def _cases(work: Work) -> Iterator[Case]:
    if work.cell_ends:
        yield Case(
            "paper",
            f"the paper's work ({len(work.cell_ends) + 1} cells, {PAPER_ITEMS} items of "
            f"{PAPER_TOKENS} tokens)",
            work.tokens(PAPER_TOKENS).first(PAPER_ITEMS),
            len(work.cell_ends) + 1,
            work.cell_ends,
        )
    planned = f"{PHONES} partitions, {PLANNED_ITEMS} items"
    yield Case("planned", planned, work.first(PLANNED_ITEMS), PHONES)


def _measure(bench: Bench, rack: Rack, case: Case, outcome: Outcome) -> None:
    spec = FleetSpec(PHONES, rack=rack, cut_after=case.cut_after)
    bench.say(f"emulating {PHONES} phones: {case.says}")
    with Fleet(case.work, bench.folder(f"pipeline-{case.name}"), spec) as fleet:
        with fleet.session(partitions=case.partitions) as session:
            taken = _rounds(bench, fleet, session)
        outcome.rows += _rows(case, taken)
        outcome.pictures.append(_timeline(case, fleet, taken))
        if case.name == "planned":
            with ExitStack() as stack:
                rival = stack.enter_context(bench.whole(fleet.work.items, rack.slow_prefix(0)))
                one = [1 / spread(rival.run(bench.pick(3, 10))).median]
            outcome.rows.append(_against_one(fleet, taken, one))
            outcome.pictures.append(_scaling(bench, fleet, taken, one[0]))


def _rounds(bench: Bench, fleet: Fleet, session: Session) -> Taken:
    items = fleet.work.items
    taken = Taken({})

    def once(mode: str) -> float:
        def act() -> None:
            taken.batches[mode] = run_batch(session, items, mode == "barrier", lambda: None)

        stages = fleet.watched(act, len(items))
        batch = taken.batches[mode]
        if batch.errors:
            raise OperatorError(f"{mode}: {next(iter(batch.errors.values()))}")
        if mode == "streaming":
            taken.bounds.append(bound_of(stages, PHONE.nbytes_per_s))
            ranges = (show_range(each.task.first, each.task.last) for each in stages[-1])
            taken.plan = ", ".join(ranges)
        return batch.latency_s

    def both() -> None:
        for mode in MODES:
            once(mode)

    fleet.settle(both)
    taken.bounds.clear()
    mark = fleet.happenings.mark()
    contenders = {mode: lambda mode=mode: once(mode) for mode in MODES}
    taken.seconds.update(take_turns(contenders, bench.pick(2, 9)))
    taken.note = fleet.loads_told(mark)
    return taken


def _rows(case: Case, taken: Taken) -> Iterator[Row]:
    streaming, barrier = (taken.seconds[mode] for mode in MODES)
    bounds = [bound.streaming_s for bound in taken.bounds]
    stages = "stages of " + ", ".join(f"{1e3 * each:.0f}" for each in taken.bounds[-1].stage_s)
    yield measured(
        f"pipeline.{case.name}_streaming",
        f"{case.says} on phones with {PHONE.told()}: streaming",
        streaming,
        "s",
        rival=Rival("barrier", spread(barrier).median),
        note=f"segments {taken.plan}: {stages} ms. {taken.note}".strip(),
    )
    yield measured(
        f"pipeline.{case.name}_share_of_bound",
        f"{case.says}: the bound's time as a share of what streaming took",
        shares(bounds, streaming),
        "",
        at_least(SHARE_OF_BOUND),
    )
    allowed = spread([bound.saving for bound in taken.bounds]).median
    yield measured(
        f"pipeline.{case.name}_saving",
        f"{case.says}: time that streaming saves against the barrier",
        [1 - a / b for a, b in zip(streaming, barrier, strict=True)],
        "",
        at_least(SAVING) if allowed >= WHERE_BOUND_ALLOWS else None,
        Rival("the bound's own", allowed),
    )


def _against_one(fleet: Fleet, taken: Taken, one: list[float]) -> Row:
    rates = [len(fleet.work.items) / seconds for seconds in taken.seconds["streaming"]]
    return measured(
        "pipeline.planned_against_one_phone",
        f"{PHONES} phones, as multiples of one such phone that could hold the whole model",
        [rate / one[0] for rate in rates],
        "x",
    )


def _timeline(case: Case, fleet: Fleet, taken: Taken) -> Picture:
    """The last round of both modes."""
    spans = tuple(fleet.watcher.look(lambda seen: seen.spans()))
    phases = [
        Phase(f"{mode}: {case.says}", "", batch.start_s, batch.end_s, spans)
        for mode, batch in sorted(taken.batches.items(), reverse=True)
    ]
    used = {span.device for span in spans}
    names = [name for name in fleet.names if name in used]
    picture = timeline_svg(phases, names, len(fleet.work.items))
    return Picture(f"pipeline-{case.name}.svg", picture)


def _scaling(bench: Bench, fleet: Fleet, taken: Taken, one: float) -> Picture:
    """Throughput of 1 to 5 partitions, each on a phone of its own."""
    points = []
    items = fleet.work.first(bench.pick(SCALING_ITEMS // 2, SCALING_ITEMS)).items
    for count in range(1, PHONES, bench.pick(2, 1)):
        with fleet.session(partitions=count) as session:
            run_batch(session, items[:3], False, lambda: None)
            batch = run_batch(session, items, False, lambda: None)
        points.append((float(count), len(items) / batch.latency_s))
    seconds = spread(taken.seconds["streaming"]).median
    points.append((float(PHONES), len(fleet.work.items) / seconds))
    chart = Chart(
        f"{fleet.work.name}: throughput against emulated phones",
        f"phones, one partition each ({PHONE.told()})",
        "items/s",
        (Line("through the broker", tuple(points), dots=True),),
        (Mark("one phone that holds the whole model, no network", one),),
        y_from=0.0,
        counted=True,
    )
    return Picture("throughput-phones.svg", chart.svg())


def _skipped(work: Work, why: str) -> Iterator[Row]:
    for case in _cases(work):
        for name, unit in (("streaming", "s"), ("share_of_bound", ""), ("saving", "")):
            target = at_least(SHARE_OF_BOUND) if name == "share_of_bound" else None
            yield skipped(f"pipeline.{case.name}_{name}", case.says, unit, why, target)
    says = f"{PHONES} phones, as multiples of one such phone"
    yield skipped("pipeline.planned_against_one_phone", says, "x", why)
