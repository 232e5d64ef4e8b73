"""Small work: what an item costs beside its compute.

A model of some kilobytes through three agents, against one agent, one process, and bare passes of
the same bytes; and short texts through MiniLM on five agents against two plain processes. All of it
is warm, and contenders take turns.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.bench import Bench, Outcome
from benchmarks.fleet import Fleet, FleetSpec
from benchmarks.happenings import Stage, idle_share
from benchmarks.process import cpu_s
from benchmarks.rounds import Measure, shares, take_turns
from benchmarks.row import Rival, Row, at_least, at_most, measured
from benchmarks.runs import drain, rate, rate_of_processes, rate_unwatched
from benchmarks.spread import spread
from benchmarks.subjects.hop import hops
from benchmarks.tiny import ENDS, tiny_work
from benchmarks.work import work_of
from crowdpipe.client.session import Session
from crowdpipe.items_file import Arrays

AGENTS = 3
ITEMS = 1000
INPUTS = 60
TEXTS = 200
TOKENS = 32
MINILM = "minilm"
SHARE_OF_ONE_AGENT = 1.0
SHARE_OF_TWO = 0.5
HOPS_OF_BARE = 4.0
INPUT_MS = 1.5
TASK_MS = 1.3  # 1.5 % of the 88 ms that one process takes for an item of 128 tokens
MESSAGES = 4.0
TRAILING_S = 0.5  # after the last result: what gathers goes out within 100 ms
IDLE_PERCENT = 2.0
MS = 1e3


def run(bench: Bench) -> Outcome:
    return Outcome(rows=[*_tiny(bench), *_texts(bench)])


def _tiny(bench: Bench) -> Iterator[Row]:
    work = tiny_work(bench.folder("tiny"), ITEMS)
    spec = FleetSpec(AGENTS, cut_after=ENDS)
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(work, bench.folder("tiny-fleet"), spec))
        three = stack.enter_context(fleet.session())
        one = stack.enter_context(fleet.session(partitions=1))
        items = work.first(bench.pick(300, ITEMS)).items
        for session in (three, one):
            rate(session, items)
        found = take_turns(
            {
                "three": lambda: rate_unwatched(fleet, three, items),
                "one": lambda: rate_unwatched(fleet, one, items),
            },
            bench.pick(2, 5),
        )
        yield from _tiny_rates(found, len(items))
        yield _task_row(fleet, three, items)
        yield _hop_row(bench, fleet, three, items[0])
        yield _input_row(bench, fleet, three, items[:INPUTS])
        yield _messages_row(bench, fleet, three, items)
        yield _idle_row(bench, fleet, three, items, "small.idle_at_once", "three agents")


def _tiny_rates(found: dict[str, list[float]], count: int) -> Iterator[Row]:
    one = spread(found["one"]).median
    yield measured(
        "small.tiny",
        f"a model of some kilobytes, {count} items, three agents asked for",
        found["three"],
        "items/s",
        rival=Rival("one agent", one),
    )
    yield measured(
        "small.tiny_share_of_one_agent",
        "the same, as a share of one agent",
        shares(found["three"], found["one"]),
        "",
        target=at_least(SHARE_OF_ONE_AGENT),
    )


def _task_row(fleet: Fleet, session: Session, items: Sequence[Arrays]) -> Row:
    """Of all agents together; encoding and decoding of the codec, and computing, are left out."""
    pids = fleet.pids.values()
    before = sum(map(cpu_s, pids))
    stages = fleet.watched(lambda: drain(session, items), len(items))
    spent = sum(map(cpu_s, pids)) - before
    tasks = [stage for each in stages for stage in each]
    work = sum(map(_work_s, tasks))
    return measured(
        "small.task",
        "processor time of a task in an agent beside compute and codec",
        [MS * (spent - work) / len(tasks)],
        "ms",
        target=at_most(TASK_MS),
    )


def _work_s(stage: Stage) -> float:
    return stage.done.compute_s + stage.done.decode_s + stage.done.encode_s


def _hop_row(bench: Bench, fleet: Fleet, session: Session, item: Arrays) -> Row:
    count = bench.pick(12, 40)

    def lone() -> None:
        for _ in range(count):
            session.run(None, item)

    found = list(hops(fleet.watched(lone, count)))
    with fleet.bare() as (one, other):
        passes = [one.pass_to(other, found[0].nbytes) for _ in range(5 * count)][count:]
    bare = spread(passes).median
    return measured(
        "small.hop",
        f"everything but compute between two devices, {found[0].nbytes} bytes, in bare passes",
        [hop.overhead_s / bare for hop in found],
        "x",
        target=at_most(HOPS_OF_BARE),
        rival=Rival("bare MQTT clients, in ms", MS * bare),
    )


def _input_row(bench: Bench, fleet: Fleet, session: Session, items: Sequence[Arrays]) -> Row:
    """With a barrier the first device begins once it has all inputs: so that tells when it had."""
    found = []
    for _ in range(bench.pick(3, 10)):
        begun = time.monotonic()
        stages = fleet.watched(lambda: drain(session, items, barrier=True), len(items))
        first = min(each[0].started_s for each in stages)
        found.append(MS * (first - begun) / len(items))
    return measured(
        "small.input",
        f"from `run_many` to the first device, each of {len(items)} inputs of 2 KB",
        found,
        "ms",
        target=at_most(INPUT_MS),
    )


def _messages_row(bench: Bench, fleet: Fleet, session: Session, items: Sequence[Arrays]) -> Row:
    """A run of its own, in which nothing is timed: those who listen slow it."""
    found: list[Counter[str]] = []
    with fleet.unwatched(), fleet.tally() as tally:
        for _ in range(bench.pick(2, 5)):
            before = tally.counts()
            drain(session, items)
            time.sleep(TRAILING_S)
            found.append(tally.counts() - before)
    kinds = ", ".join(f"{kind} {n / len(items):.1f}" for kind, n in found[-1].most_common(6))
    return measured(
        "small.messages",
        f"messages to and from the orchestrator for an item, {len(items)} items in a run",
        [sum(each.values()) / len(items) for each in found],
        "",
        target=at_most(MESSAGES),
        note=kinds,
    )


def _idle_row(
    bench: Bench, fleet: Fleet, session: Session, items: Sequence[Arrays], name: str, who: str
) -> Row:
    found = []
    for _ in range(bench.pick(2, 5)):
        stages = fleet.watched(lambda: drain(session, items), len(items))
        found.append(100 * idle_share([stage for each in stages for stage in each]))
    return measured(
        name,
        f"{who}: time in which none has a task, from the first start to the last end of a run",
        found,
        "%",
        target=at_most(IDLE_PERCENT),
    )


def _texts(bench: Bench) -> Iterator[Row]:
    work = work_of(MINILM, bench.options.cache, bench.say).tokens(TOKENS)
    items = work.first(bench.pick(60, TEXTS)).items
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(work, bench.folder("texts-fleet"), FleetSpec()))
        session = stack.enter_context(fleet.session())
        rivals = [stack.enter_context(bench.whole(items, model=work.model)) for _ in range(2)]
        fleet.settle(lambda: drain(session, items))
        contenders: dict[str, Measure] = {
            "agents": lambda: rate_unwatched(fleet, session, items),
            "two": lambda: rate_of_processes(rivals, len(items)),
        }
        found = take_turns(contenders, bench.pick(3, 7))
        idle = _idle_row(bench, fleet, session, items, "small.texts_idle_at_once", MINILM)
    yield measured(
        "small.texts",
        f"{MINILM}, {len(items)} texts of {TOKENS} tokens, five agents",
        found["agents"],
        "items/s",
        rival=Rival("two processes", spread(found["two"]).median),
    )
    yield measured(
        "small.texts_share_of_two_processes",
        "the same, as a share of two processes",
        shares(found["agents"], found["two"]),
        "",
        target=at_least(SHARE_OF_TWO),
    )
    yield idle
