"""What the orchestrator does for an item, and for an event, as the crowd around it grows.

In process: the machine with generated traffic, at several numbers of devices, of which four serve,
and at several numbers of idle runs. Then devices as real connections through a real broker to a
real orchestrator. A size that takes too long is given up, and its rows say so.
"""

from __future__ import annotations

from benchmarks.bench import Bench, Outcome
from benchmarks.crowd.figures import device_picture, device_rows, run_picture, run_rows
from benchmarks.crowd.live import Plan, measure_live
from benchmarks.crowd.live_rows import live_rows
from benchmarks.crowd.sizes import Limits, Size, measure

DEVICES = (10, 100, 1_000, 10_000)
RUNS = (1, 100, 9_900)  # the machine takes 10,000 at once, and each measured run is one
FEW_DEVICES = 10
QUICK = Limits(start_s=10.0, first_s=6.0, round_s=4.0, rounds_s=4.0, rounds=4)
FULL = Limits(start_s=30.0, first_s=30.0, round_s=20.0, rounds_s=25.0, rounds=9)
QUICK_LIVE = Plan(connected=200, windows=2, window_s=2.0, limit_s=20.0)
FULL_LIVE = Plan(connected=1_000, windows=3, window_s=4.0, limit_s=90.0)


def run(bench: Bench) -> Outcome:
    limits = QUICK if bench.options.quick else FULL
    by_devices = [Size(count, 0) for count in DEVICES]
    by_runs = [Size(FEW_DEVICES, count) for count in RUNS]
    for word, sizes in (("devices", by_devices), ("runs", by_runs)):
        bench.say(f"crowds of several numbers of {word}")
        measure(sizes, limits, bench.say)
    bench.say("devices as real connections")
    plan = QUICK_LIVE if bench.options.quick else FULL_LIVE
    live = measure_live(bench.folder("growth"), plan, bench.say)
    rows = [*device_rows(by_devices), *run_rows(by_runs), *live_rows(live)]
    return Outcome(rows, [device_picture(by_devices), run_picture(by_runs)])
