"""Real processes of which any may die or stand still at any moment: does everything come back?

60 items each trial, exact; a random fault at a random moment, two of them in a third of the trials,
a cold start in a fifth. The seed is that of the trial's number: a trial can be repeated.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence

from benchmarks.bench import Bench, Outcome
from benchmarks.faults.fault import FAULTS
from benchmarks.faults.system import FaultySystem
from benchmarks.faults.trial import Trial, tried, undisturbed
from benchmarks.row import Row, Target, at_least, at_most, measured, skipped
from crowdpipe.demo.reference import run_whole
from wire.errors import CrowdpipeError

DEVICES, PARTITIONS = 5, 4  # one to spare
FULL, QUICK = 100, 6
FRESH_EVERY = 20  # trials, after which all is started anew, with an empty journal
LIMIT_S = 2_400.0  # no trial begins later


def run(bench: Bench) -> Outcome:
    count = bench.options.trials or bench.pick(QUICK, FULL)
    trials: list[Trial] = []
    numbers, until = deque(range(count)), time.monotonic() + LIMIT_S
    while numbers and time.monotonic() < until:
        first = numbers[0]
        try:
            _some(bench, numbers, until, trials)
        except CrowdpipeError as error:
            bench.say(f"the system for trial {first} did not start: {error}")
        if numbers and numbers[0] == first:
            numbers.popleft()
    return Outcome(rows=list(_rows(trials, count)))


def _some(bench: Bench, numbers: deque[int], until: float, trials: list[Trial]) -> None:
    """The next trials, on a system of their own. What cannot be mended is a trial that failed, and
    the end of that system."""
    first = numbers[0]
    with FaultySystem(bench.given, bench.folder(f"faults-{first}"), DEVICES) as system:
        expected, _ = run_whole(bench.given.model, system.work.items, exact=True)
        undisturbed(system, PARTITIONS)
        usual_s = undisturbed(system, PARTITIONS)
        bench.say(f"an undisturbed run takes {usual_s:.1f} s; trials from {first} on")
        while numbers and numbers[0] < first + FRESH_EVERY and time.monotonic() < until:
            number = numbers.popleft()
            try:
                trial = tried(system, expected, PARTITIONS, number)
            except (CrowdpipeError, OSError) as error:
                bench.say(f"trial {number}: the system did not come back: {error}")
                return
            trials.append(trial)
            bench.say(f"trial {number}, {trial.took_s:.1f} s: {_told(trial)}")


def _told(trial: Trial) -> str:
    """What failed, how soon it went on, and what is not as it should be."""
    faults = " and ".join(FAULTS[name].says for name in trial.faults)
    parts = [faults + (", cold" if trial.cold else "")]
    for struck in trial.struck:
        seconds = trial.recovery_s(struck)
        parts.append(f"{struck.fault} over" if seconds is None else f"{struck.fault} {seconds:.1f}")
    if not trial.whole:
        missing = trial.items - len(trial.counts)
        wrong, twice = len(trial.wrong), trial.duplicates
        idle = len(trial.faults) - len(trial.struck)
        lost = f"{missing} missing, {twice} twice, {wrong} wrong, {idle} did not strike"
        parts.append(f"{lost}; {trial.error or '–'}")
    return "; ".join(parts)


def _rows(trials: Sequence[Trial], count: int) -> Iterator[Row]:
    per_trial = trials[0].items if trials else 0
    items = count * per_trial
    delivered = sum(len(trial.counts) for trial in trials)
    wrong = sum(len(trial.wrong) for trial in trials)
    duplicates = sum(trial.duplicates for trial in trials)
    whole = sum(trial.whole for trial in trials)
    told = f"of {count} trials of {per_trial} items"
    yield _count("whole", f"{told}: all came, once each, exact", whole, at_least(count))
    yield _count("delivered", f"{told}: items delivered, of {items}", delivered, at_least(items))
    yield _count("exact", f"{told}: bit for bit", delivered - wrong, at_least(items))
    struck, faults = sum(len(t.struck) for t in trials), sum(len(t.faults) for t in trials)
    yield _count("struck", f"{told}: faults that struck, of {faults}", struck, at_least(faults))
    yield _count("duplicates", f"{told}: delivered twice", duplicates, at_most(0))
    for name in FAULTS:
        yield from _recovery(name, trials)


def _count(name: str, says: str, value: float, target: Target) -> Row:
    return measured(f"faults.{name}", says, [value], "", target)


def _recovery(name: str, trials: Sequence[Trial]) -> Iterator[Row]:
    """Alone, not in pairs: of two faults one would be told of the other's time. Warm, where the
    fault is not about a cold start: the first fetch is no recovery."""
    fault = FAULTS[name]
    found = [
        seconds
        for trial in trials
        if len(trial.faults) == 1 and trial.cold == fault.cold
        for struck in trial.struck
        if struck.fault == name
        if (seconds := trial.recovery_s(struck)) is not None
    ]
    target = at_most(fault.recovery_s) if fault.recovery_s is not None else None
    says = f"{fault.says}: the longest that nothing comes, once it can"
    if not found:
        yield skipped(f"faults.{name}", says, "s", "no trial had it alone while a run went on")
        return
    yield measured(f"faults.{name}", says, found, "s", target)
    worst = f"{fault.says}: the worst of these"
    yield measured(f"faults.{name}_worst", worst, [max(found)], "s", target)
