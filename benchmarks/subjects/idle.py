"""What an agent takes while it has nothing to do: memory, and share of a core.

One agent that was never given anything, and the five of the fleet, which have their partitions
loaded. Processor time of all threads over a window in which nobody asks for anything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.bench import Bench, Outcome
from benchmarks.desk import Desk
from benchmarks.process import cpu_s, rss_nbytes, threads_ns
from benchmarks.row import Row, at_most, measured

MB = 1e6
RSS_MB = 25.0
CORE_PERCENT = 0.5
QUIET_S = 3.0  # after which what ran before has told all it has to tell
ROOMY_NBYTES = 1 << 30
BARE = "bare"


def run(bench: Bench) -> Outcome:
    fleet = bench.fleet()
    with Desk(bench.folder("idle")) as desk, desk.agent(BARE, ROOMY_NBYTES) as bare:
        time.sleep(QUIET_S)
        pids = {BARE: bare, **fleet.pids, **fleet.desk_pids}
        percent = _percent(pids, float(bench.pick(15, 60)))
        rss = {name: rss_nbytes(pid) / MB for name, pid in pids.items()}
    fleet.check()
    return Outcome(rows=list(_rows(rss, percent, fleet.names)))


def _percent(pids: dict[str, int], window_s: float) -> dict[str, float]:
    """Percent of a core of each process."""
    before = {name: (threads_ns(pid), cpu_s(pid)) for name, pid in pids.items()}
    begun = time.monotonic()
    time.sleep(window_s)
    took_s = time.monotonic() - begun
    return {name: 100 * _taken_s(pid, *before[name]) / took_s for name, pid in pids.items()}


def _taken_s(pid: int, threads_before: dict[str, int], cpu_before_s: float) -> float:
    """Exact where every thread lived on; otherwise in the kernel's ticks."""
    now = threads_ns(pid)
    if set(threads_before) <= set(now):
        return sum(ns - threads_before.get(thread, 0) for thread, ns in now.items()) / 1e9
    return cpu_s(pid) - cpu_before_s


def _rows(
    rss: dict[str, float], percent: dict[str, float], names: tuple[str, ...]
) -> Iterator[Row]:
    bare = "an agent without a partition"
    yield measured("idle.rss", f"{bare}: memory", [rss[BARE]], "MB", at_most(RSS_MB))
    yield measured(
        "idle.core", f"{bare}: share of a core", [percent[BARE]], "%", at_most(CORE_PERCENT)
    )
    yield measured(
        "idle.loaded_core",
        "agents with a loaded partition and nothing to do: share of a core",
        [percent[name] for name in names],
        "%",
        at_most(CORE_PERCENT),
    )
    yield measured(
        "idle.loaded_rss",
        "agents with a loaded partition: memory",
        [rss[name] for name in names],
        "MB",
    )
    for name in sorted(set(percent) - set(names) - {BARE}):
        yield measured(
            f"idle.{name}_core",
            f"at the desk, with five idle agents: {name}, share of a core",
            [percent[name]],
            "%",
        )
