"""One run of all items while something fails; what came of it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from benchmarks.faults.fault import FAULTS, Moment, Striker, Struck
from benchmarks.faults.system import FaultySystem
from crowdpipe.items_file import Arrays
from wire.errors import CrowdpipeError

PAIRS = 1 / 3  # of all trials have two faults
COLD = 1 / 5  # of them begin with empty caches
AT_FIRST = 1 / 5  # of faults strike before there is a result, within `FIRST_S`
FIRST_S, LATER_S = 1.5, 0.3
LAST = 2 / 3  # of the results have come when a fault strikes, at most: else it may come too late
SUBMITTED_S = 10.0  # so long the client that submits may live


@dataclass(slots=True)
class Trial:
    """`came`: when each result came, in order. `wrong`: items whose result is not the whole
    model's, bit for bit. `error`: what ended the run, or a device, before its time."""

    faults: tuple[str, ...]
    cold: bool
    items: int
    counts: Counter[int] = field(default_factory=Counter)
    came: list[float] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    took_s: float = 0.0
    error: str = ""

    @property
    def whole(self) -> bool:
        """It all came, though everything struck that was to strike."""
        once = len(self.counts) == self.items and self.duplicates == 0
        once &= len(self.struck) == len(self.faults)
        return once and not self.wrong and not self.error

    @property
    def duplicates(self) -> int:
        return sum(count - 1 for count in self.counts.values())

    def recovery_s(self, struck: Struck) -> float | None:
        """The longest that nothing came after the system could go on; None if all was over."""
        after = [at for at in self.came if at > struck.able_at]
        if not after:
            return None
        begun = [struck.able_at, *after[:-1]]
        return max(later - earlier for earlier, later in zip(begun, after, strict=True))


def undisturbed(system: FaultySystem, partitions: int) -> float:
    """Seconds that a warm run takes without a fault."""
    begun = time.monotonic()
    with system.session(partitions) as session:
        list(session.run_many(system.work.items))
    return time.monotonic() - begun


def chosen(number: int) -> tuple[str, ...]:
    """The faults of a trial: each kind is as often the first one, another comes by chance."""
    kinds, random = list(FAULTS), Random(number)
    turn, place = divmod(number, len(kinds))
    Random(turn).shuffle(kinds)
    first = kinds[place]
    others = [kind for kind in kinds if kind != first]
    return (first, random.choice(others)) if random.random() < PAIRS else (first,)


def moment(random: Random, items: int, *, at_first: bool) -> Moment:
    """Any of a run: before the first result, and while enough is left that it meets."""
    if at_first or random.random() < AT_FIRST:
        return Moment(0, random.uniform(0.0, FIRST_S))
    return Moment(random.randrange(1, round(items * LAST)), random.uniform(0.0, LATER_S))


def tried(system: FaultySystem, expected: Sequence[Arrays], partitions: int, number: int) -> Trial:
    """A trial with the faults of its number; the system is whole again afterwards."""
    names, random = chosen(number), Random(number)
    cold = any(FAULTS[name].cold for name in names) or random.random() < COLD
    trial = Trial(names, cold, len(expected))
    if trial.cold:
        system.empty_caches()
        system.await_ready()
    over = threading.Event()
    items, submitted = len(expected), any(FAULTS[name].submitted for name in names)
    strikers = [
        Striker(
            name,
            system,
            Random(random.random()),
            moment(random, items, at_first=FAULTS[name].cold or submitted),
            lambda: len(trial.came),
            over,
        )
        for name in names
    ]
    begun = time.monotonic()
    try:
        _run(system, trial, expected, partitions, strikers)
    finally:
        trial.took_s = time.monotonic() - begun
        over.set()
        for striker in strikers:
            striker.join()
            trial.error = trial.error or (str(striker.error) if striker.error else "")
            if striker.struck is not None:
                trial.struck.append(striker.struck)
        system.mend()
    return trial


def _run(
    system: FaultySystem,
    trial: Trial,
    expected: Sequence[Arrays],
    partitions: int,
    strikers: Sequence[Striker],
) -> None:
    try:
        with ExitStack() as stack:
            if any(FAULTS[name].submitted for name in trial.faults):
                results = stack.enter_context(_collected(system, partitions, strikers))
            else:
                session = stack.enter_context(system.session(partitions))
                results = session.run_many(system.work.items, ordered=False)
                _start(strikers)
            for index, outputs in results:
                if isinstance(outputs, CrowdpipeError):
                    raise outputs
                trial.came.append(time.monotonic())
                trial.counts[index] += 1
                whole = expected[index].values()
                if not all(map(np.array_equal, outputs, whole)):
                    trial.wrong.append(index)
    except CrowdpipeError as error:
        trial.error = f"{type(error).__name__}: {error}"


@contextmanager
def _collected(
    system: FaultySystem, partitions: int, strikers: Sequence[Striker]
) -> Iterator[Iterable[tuple[int, Any]]]:
    """The results of a run that a client submits who does not live to read them."""
    with system.client(partitions) as client:
        _start(strikers)
        client.await_end(SUBMITTED_S)
        with (
            system.session(partitions) as session,
            session.collect(client.run) as results,
        ):
            yield results


def _start(strikers: Sequence[Striker]) -> None:
    for striker in strikers:
        striker.start()
