"""What a run takes from each device's battery: read off its charge counter where there is one,
and otherwise estimated from processor time, which is measured.

An estimate is no measurement: it takes `CORE_W` for a core at work, which differs between phones
by a factor of three, and counts neither radio nor screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from benchmarks.bench import Bench, Outcome
from benchmarks.fleet import Fleet
from benchmarks.process import cpu_s
from benchmarks.row import Rival, Row, measured, skipped
from benchmarks.runs import drain
from benchmarks.spread import spread
from benchmarks.whole import WholeModel
from crowdpipe.client.session import Session

ITEMS = 60
CORE_W = 1.5
BATTERY_V = 3.85
MS = 1e3
WH_S = 3600.0


def run(bench: Bench) -> Outcome:
    fleet = bench.fleet()
    devices: list[float] = []
    desk: list[float] = []
    rival: list[float] = []
    before = _charges(fleet)
    with ExitStack() as stack:
        one = stack.enter_context(bench.whole())
        session = stack.enter_context(fleet.session())
        rounds = bench.pick(2, 5)
        for _ in range(rounds):
            taken = _taken(fleet, session)
            devices += [taken[name] for name in fleet.names]
            desk.append(sum(taken[name] for name in fleet.desk_pids))
            rival.append(_whole(one))
    after = _charges(fleet)
    rows = [*_rows(devices, desk, rival), _counter_row(before, after, rounds)]
    return Outcome(rows=rows)


def _taken(fleet: Fleet, session: Session) -> dict[str, float]:
    """Processor seconds of each process over one run."""
    pids = fleet.pids | fleet.desk_pids
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    items = fleet.work.first(ITEMS).items
    fleet.watched(lambda: drain(session, items), ITEMS)
    return {name: cpu_s(pid) - before[name] for name, pid in pids.items()}


def _whole(one: WholeModel) -> float:
    before = cpu_s(one.pid)
    one.run(ITEMS)
    return cpu_s(one.pid) - before


def mah(cpu_seconds: float) -> float:
    """The charge that so much processor time takes, by the assumptions above."""
    return cpu_seconds * CORE_W / BATTERY_V / WH_S * 1e3


def _rows(devices: list[float], desk: list[float], rival: list[float]) -> Iterator[Row]:
    yield measured(
        "energy.estimated_mah_per_run",
        f"per device and run of {ITEMS} items, estimated from processor time",
        [mah(each) for each in devices],
        "mAh",
        rival=Rival("one process, all of it", mah(spread(rival).median)),
        note=f"an estimate: {CORE_W:g} W a core, {BATTERY_V:g} V, without radio and screen",
    )
    count = len(devices) // len(rival)
    fleet = [sum(devices[i * count : (i + 1) * count]) for i in range(len(rival))]
    yield measured(
        "energy.cpu_per_item",
        f"processor time of all {count} agents for an item",
        [MS * each / ITEMS for each in fleet],
        "ms",
        rival=Rival("one process", MS * spread(rival).median / ITEMS),
    )
    yield measured(
        "energy.desk_cpu_per_item",
        "processor time of orchestrator, store and broker for an item",
        [MS * each / ITEMS for each in desk],
        "ms",
    )


def _charges(fleet: Fleet) -> dict[str, int]:
    """What the devices' charge counters say, in µAh, of those that have one."""
    records = fleet.watcher.look(lambda seen: list(seen.devices.values()))
    found = {each.name: each.telemetry.battery_charge_uah for each in records if each.telemetry}
    return {name: charge for name, charge in found.items() if charge is not None}


def _counter_row(before: dict[str, int], after: dict[str, int], rounds: int) -> Row:
    name, says = "energy.counted_mah_per_run", f"per device and run of {ITEMS} items, counted"
    both = sorted(set(before) & set(after))
    if not both:
        return skipped(name, says, "mAh", "no device here has a charge counter")
    return measured(name, says, [(before[d] - after[d]) / 1e3 / rounds for d in both], "mAh")
