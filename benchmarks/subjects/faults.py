"""Real processes of which any may die or stand still at any moment: does everything come back?

60 items each trial, exact; a random fault at a random moment, two of them in a third of the trials,
a cold start in a fifth. The seed is that of the trial's number: a trial can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

from benchmarks.bench import Bench, Outcome
from benchmarks.faults.fault import FAULTS
from benchmarks.faults.system import FaultySystem
from benchmarks.faults.trial import Trial, tried, undisturbed
from benchmarks.row import Row, Target, at_least, at_most, measured, skipped
from crowdpipe.demo.reference import run_whole

DEVICES, PARTITIONS = 5, 4  # one to spare
FULL, QUICK = 100, 6


def run(bench: Bench) -> Outcome:
    count = bench.options.trials or bench.pick(QUICK, FULL)
    with FaultySystem(bench.given, bench.folder("faults"), DEVICES) as system:
        expected, _ = run_whole(bench.given.model, system.work.items, exact=True)
        undisturbed(system, PARTITIONS)
        usual_s = undisturbed(system, PARTITIONS)
        bench.say(f"an undisturbed run takes {usual_s:.1f} s; {count} trials")
        trials = []
        for number in range(count):
            trial = tried(system, expected, PARTITIONS, usual_s, Random(number))
            trials.append(trial)
            if not trial.whole:
                bench.say(f"trial {number}: {_told(trial)}")
    return Outcome(rows=list(_rows(trials)))


def _told(trial: Trial) -> str:
    """What is not as it should be."""
    missing = trial.items - len(trial.counts)
    faults = " and ".join(FAULTS[name].says for name in trial.faults) + (
        ", cold" if trial.cold else ""
    )
    return (
        f"{faults}: {missing} missing, {trial.duplicates} twice, {len(trial.wrong)} wrong; "
        f"{trial.error or 'no error'}"
    )


def _rows(trials: Sequence[Trial]) -> Iterator[Row]:
    items = sum(trial.items for trial in trials)
    delivered = sum(len(trial.counts) for trial in trials)
    wrong = sum(len(trial.wrong) for trial in trials)
    duplicates = sum(trial.duplicates for trial in trials)
    whole = sum(trial.whole for trial in trials)
    told = f"of {len(trials)} trials of {trials[0].items} items"
    yield _count("whole", f"{told}: all came, once each, exact", whole, at_least(len(trials)))
    yield _count("delivered", f"{told}: items delivered, of {items}", delivered, at_least(items))
    yield _count("exact", f"{told}: bit for bit", delivered - wrong, at_least(items))
    yield _count("duplicates", f"{told}: delivered twice", duplicates, at_most(0))
    for name in FAULTS:
        yield from _recovery(name, trials)


def _count(name: str, says: str, value: float, target: Target) -> Row:
    return measured(f"faults.{name}", says, [value], "", target)


def _recovery(name: str, trials: Sequence[Trial]) -> Iterator[Row]:
    """Alone, not in pairs: of two faults one would be told of the other's time."""
    fault = FAULTS[name]
    found = [
        seconds
        for trial in trials
        if len(trial.faults) == 1
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
    yield measured(f"faults.{name}_worst", f"{fault.says}: the worst of these", [max(found)], "s")
