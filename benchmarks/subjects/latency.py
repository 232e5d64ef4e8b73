"""A lone item through five agents, against the same item in one process.

Both are warm and idle before each item, and take turns. What a person waits: from calling `run`
to having the outputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from benchmarks.bench import Bench, Outcome
from benchmarks.rounds import Measure, shares, take_turns
from benchmarks.row import Rival, Row, at_most, measured
from benchmarks.spread import spread
from crowdpipe.client.session import Session
from crowdpipe.items_file import Arrays

SHARE_OF_ONE = 1.25
MS = 1e3


def run(bench: Bench) -> Outcome:
    fleet = bench.fleet()
    item = fleet.work.items[0]
    rounds = bench.pick(12, 40)
    found: dict[str, list[float]] = {}
    with ExitStack() as stack:
        rival = stack.enter_context(bench.whole())
        session = stack.enter_context(fleet.session())
        fleet.watched(lambda: found.update(warm=[_lone(session, item)()]), 1)
        contenders: dict[str, Measure] = {
            "agents": _lone(session, item),
            "one": lambda: rival.run(1)[0],
        }
        items = fleet.watched(lambda: found.update(take_turns(contenders, rounds)), rounds)
    computed = [sum(stage.done.compute_s for stage in each) for each in items]
    return Outcome(rows=list(_rows(found, computed)))


def _lone(session: Session, item: Arrays) -> Callable[[], float]:
    def once() -> float:
        begun = time.perf_counter()
        session.run(None, item)
        return time.perf_counter() - begun

    return once


def _rows(found: dict[str, list[float]], computed: list[float]) -> Iterator[Row]:
    one = spread(found["one"]).median
    yield measured(
        "latency.lone",
        "a lone item through five agents",
        [MS * each for each in found["agents"]],
        "ms",
        rival=Rival("one process", MS * one),
    )
    yield measured(
        "latency.share_of_one_process",
        "a lone item through five agents, as multiples of one process",
        shares(found["agents"], found["one"]),
        "x",
        target=at_most(SHARE_OF_ONE),
    )
    yield measured(
        "latency.compute",
        "of it, what all agents together computed",
        [MS * each for each in computed],
        "ms",
        rival=Rival("one process", MS * one),
    )
