"""Items a second: five agents through the broker, against one and two ONNX Runtime processes.

The rivals are independent processes of one thread each, which is all that two cores can do: they
talk to nobody. Everything is warm, and all contenders take turns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.bench import Bench, Outcome, Picture
from benchmarks.chart import Chart, Line, Mark
from benchmarks.fleet import Fleet
from benchmarks.process import cpu_s
from benchmarks.rounds import Measure, shares, take_turns
from benchmarks.row import Rival, Row, at_least, at_most, measured
from benchmarks.runs import rate, rate_of_processes, rate_unwatched
from benchmarks.spread import spread
from benchmarks.whole import WholeModel
from crowdpipe.client.session import Session
from crowdpipe.demo.comparison import compare
from crowdpipe.demo.figures import TOLERANCE
from crowdpipe.items_file import Arrays

ITEMS = 60
SHARE_OF_TWO = 0.8


def run(bench: Bench) -> Outcome:
    outcome = Outcome()
    fleet = bench.fleet()
    items = fleet.work.first(ITEMS).items
    with ExitStack() as stack:
        rivals = [stack.enter_context(bench.whole()) for _ in range(2)]
        session = stack.enter_context(fleet.session())
        served = {fleet.served()}
        pids = [*fleet.pids.values(), *fleet.desk_pids.values(), os.getpid()]
        cpu: list[float] = []
        contenders: dict[str, Measure] = {
            "agents": lambda: _agents_counted(fleet, session, items, pids, cpu, served),
            "two": lambda: rate_of_processes(rivals, ITEMS),
            "zlib": lambda: rate_unwatched(fleet, session, items, "zlib"),
            "one": lambda: rate_of_processes(rivals[:1], ITEMS),
        }
        found = take_turns(contenders, bench.pick(3, 7))
        note = "the plan changed while measuring" if len(served) > 1 else ""
        outcome.rows += _rows(found, note)
        outcome.rows.append(_bound_row(found, cpu))
        outcome.rows.append(_difference(bench, session, rivals[0], items))
    outcome.pictures.append(_against_devices(bench, fleet, found))
    return outcome


def _agents_counted(
    fleet: Fleet,
    session: Session,
    items: Sequence[Arrays],
    pids: Sequence[int],
    cpu: list[float],
    served: set[tuple[str, ...]],
) -> float:
    """The same; `cpu` is given the processor time of all processes together, for an item, and
    `served` who served what afterwards."""
    with fleet.unwatched():
        before = sum(map(cpu_s, pids))
        per_s = rate(session, items)
        cpu.append((sum(map(cpu_s, pids)) - before) / len(items))
    served.add(fleet.served())
    return per_s


def _rows(found: dict[str, list[float]], note: str) -> Iterator[Row]:
    one, two = (spread(found[name]).median for name in ("one", "two"))
    for name, text in (("agents", "five agents"), ("zlib", "five agents, always lossless zlib")):
        yield measured(
            f"throughput.{name}",
            f"{text}, {ITEMS} items",
            found[name],
            "items/s",
            rival=Rival("two processes", two),
            note=note,
        )
        yield measured(
            f"throughput.{name}_share_of_two_processes",
            f"{text}, as a share of two processes",
            shares(found[name], found["two"]),
            "",
            target=at_least(SHARE_OF_TWO) if name == "agents" else None,
            note=note,
        )
    yield measured(
        "throughput.agents_against_one_process",
        "five agents, as multiples of one process",
        shares(found["agents"], found["one"]),
        "x",
        rival=Rival("two processes", two / one),
    )
    yield measured("throughput.one_process", "one process", found["one"], "items/s")
    yield measured("throughput.two_processes", "two processes", found["two"], "items/s")


def _bound_row(found: dict[str, list[float]], cpu: list[float]) -> Row:
    """The floor under the agents' time: all of this machine's cores, never idle."""
    cores = os.cpu_count() or 1
    return measured(
        "throughput.bound_of_cores",
        f"what {cores} cores would allow if they were never idle, at the processor time that an "
        "item takes in agents, broker, orchestrator and client together",
        [cores / each for each in cpu],
        "items/s",
        rival=Rival("five agents", spread(found["agents"]).median),
    )


def _difference(bench: Bench, session: Session, rival: WholeModel, items: Sequence[Arrays]) -> Row:
    names = [spec.name for spec in session.get_outputs()]
    ours = [dict(zip(names, outputs, strict=True)) for outputs in session.run_many(items)]
    whole = rival.write(bench.folder("whole") / "outputs.npz")
    compared = compare(ours, [whole[index % len(whole)] for index in range(len(ours))])
    return measured(
        "throughput.largest_difference",
        "largest difference of an output from one process's",
        [compared.max_rel_diff],
        "",
        target=at_most(TOLERANCE),
        note="every bit is the same" if compared.identical else "",
    )


def _against_devices(bench: Bench, fleet: Fleet, found: dict[str, list[float]]) -> Picture:
    """Partitions 1 to 5, each on a device of its own."""
    items = fleet.work.first(bench.pick(15, ITEMS)).items
    points = []
    for count in range(1, len(fleet.names) + 1, bench.pick(2, 1)):
        with _warm(fleet, count) as session:
            rates = [rate(session, items) for _ in range(bench.pick(1, 3))]
        points.append((float(count), spread(rates).median))
    marks = [
        Mark("one process", spread(found["one"]).median),
        Mark("two processes", spread(found["two"]).median),
    ]
    chart = Chart(
        title=f"{fleet.work.name}: throughput against devices",
        x="devices, one partition each",
        y="items/s",
        lines=(Line("through the broker", tuple(points), dots=True),),
        marks=tuple(marks),
        y_from=0.0,
        counted=True,
    )
    return Picture("throughput-devices.svg", chart.svg())


@contextmanager
def _warm(fleet: Fleet, partitions: int) -> Iterator[Session]:
    with fleet.session(partitions=partitions) as session:
        list(session.run_many(fleet.work.items[:8]))
        yield session
