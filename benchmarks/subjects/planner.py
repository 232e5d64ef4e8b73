"""How good the planner's ranges are: against every possible plan, and with a very slow phone.

Pure arithmetic on the manifest of the model at hand: random small fleets, whose devices differ in
speed and link. A plan is as good as a batch is soon through it: the first item passes all stages,
each further one comes out one slowest step later. Brute force tries all ranges on all devices in
all orders, and all ways to leave devices out. How long it takes to find a plan is measured for
sixteen devices, and for a thousand and ten thousand with the offers made from what was measured of
each.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, combinations, permutations

from benchmarks.bench import Bench, Outcome
from benchmarks.row import Rival, Row, at_most, measured
from orchestrator.planner.estimates import Estimates
from orchestrator.planner.offers import Offer
from orchestrator.planner.partitioning import partition
from orchestrator.planner.question import Question, answer
from orchestrator.planner.rates import DeviceFacts
from orchestrator.planner.stages import BATCH
from wire.errors import OperatorError
from wire.ids import PartitionId
from wire.manifest import Manifest
from wire.messages.state import Capabilities
from wire.messages.telemetry import Telemetry

OVER_BRUTE_FORCE = 1.02
WITH_A_SLOW_PHONE = 1.0
DEVICES = 4
SLOW = 20.0  # times
SEED = 4
ROOMY_NBYTES = 1 << 34
ROOMY = Capabilities(ROOMY_NBYTES, ROOMY_NBYTES, ROOMY_NBYTES, 4, "any", "any", 99)
MANY = 16
BEFORE_MS = 450.0  # of trying many orders of these devices, on a machine of this kind
AS_GOOD = 0.1  # of that
LIMITS_S = {1_000: 2.0, 10_000: 5.0}
COST_PER_S = 2e10
LINK_NBYTES_PER_S = 6e6
MS = 1e3
Ranges = Sequence[tuple[int, int]]


def run(bench: Bench) -> Outcome:
    manifest = bench.fleet().manifest
    rows = [
        _brute_force_row(manifest, bench.pick(20, 150)),
        _slow_phone_row(manifest),
        _time_row(manifest, bench.pick(5, 25)),
        *(_crowd_row(manifest, count, bench.pick(1, 3)) for count in LIMITS_S),
    ]
    return Outcome(rows=rows)


class Stages:
    """Seconds of each range on each device of one fleet; both ends of a range are included."""

    def __init__(self, manifest: Manifest, fleet: Sequence[Offer]) -> None:
        self.end = len(manifest.segments)
        self._manifest = manifest
        self._fleet = fleet
        self._costs = [0.0, *accumulate(segment.cost for segment in manifest.segments)]

    def steps_s(self, first: int, last: int, device: int) -> tuple[float, float, float]:
        """The input's way over the device's link, compute, and the output's way."""
        offer, cuts = self._fleet[device], self._manifest.cuts
        return (
            cuts[first].bound_nbytes / offer.link_nbytes_per_s,
            (self._costs[last + 1] - self._costs[first]) / offer.cost_per_s,
            cuts[last + 1].bound_nbytes / offer.link_nbytes_per_s,
        )

    def batch_s(self, ranges: Ranges, devices: Sequence[int]) -> float:
        pairs = zip(ranges, devices, strict=True)
        steps = [self.steps_s(first, last, device) for (first, last), device in pairs]
        return sum(map(sum, steps)) + (BATCH - 1) * max(map(max, steps))

    def best_s(self) -> float:
        """The soonest of all plans."""
        return min(
            self.batch_s(ranges, order)
            for ranges in self._all_ranges()
            for order in permutations(range(len(self._fleet)), len(ranges))
        )

    def _all_ranges(self) -> Iterator[Ranges]:
        for count in range(1, min(len(self._fleet), self.end) + 1):
            for cuts in combinations(range(1, self.end), count - 1):
                starts, ends = (0, *cuts), (*cuts, self.end)
                yield [(a, b - 1) for a, b in zip(starts, ends, strict=True)]


def _planned_s(manifest: Manifest, fleet: Sequence[Offer]) -> float:
    planned = partition(manifest, fleet)
    names = [offer.device for offer in fleet]
    devices = [names.index(each.device or "") for each in planned]
    ranges = [(each.first, each.last) for each in planned]
    return Stages(manifest, fleet).batch_s(ranges, devices)


def _offer(name: str, cost_per_s: float, link: float) -> Offer:
    return Offer(ROOMY_NBYTES, ROOMY_NBYTES, ROOMY_NBYTES, 99, cost_per_s, link, name)


def _brute_force_row(manifest: Manifest, cases: int) -> Row:
    chance = random.Random(SEED)
    found = []
    for _ in range(cases):
        fleet = [
            _offer(
                f"d{number}",
                COST_PER_S * 10 ** chance.uniform(-0.7, 0.7),
                LINK_NBYTES_PER_S * 10 ** chance.uniform(-0.5, 1.0),
            )
            for number in range(chance.randint(1, DEVICES))
        ]
        found.append(_planned_s(manifest, fleet) / Stages(manifest, fleet).best_s())
    row = measured("", "", found, "x")
    worst = max(found)
    return replace(
        row,
        name="planner.over_brute_force",
        says=f"{BATCH} items by the plan against the best of all plans, worst of {cases} fleets "
        f"of up to {DEVICES} devices",
        value=worst,
        target=at_most(OVER_BRUTE_FORCE),
    )


def _slow_phone_row(manifest: Manifest) -> Row:
    """Fleets of equal phones and one that is 20 times slower in all it does."""
    found = []
    for count in range(1, DEVICES + 1):
        fleet = [_offer(f"d{number}", COST_PER_S, LINK_NBYTES_PER_S) for number in range(count)]
        slow = _offer("slow", COST_PER_S / SLOW, LINK_NBYTES_PER_S / SLOW)
        found.append(_planned_s(manifest, [*fleet, slow]) / _planned_s(manifest, fleet))
    row = measured("", "", found, "x")
    return replace(
        row,
        name="planner.with_a_slow_phone",
        says=f"{BATCH} items with a phone there that is {SLOW:g} times slower, against the plan "
        f"without it, worst of 1 to {DEVICES} other phones",
        value=max(found),
        target=at_most(WITH_A_SLOW_PHONE),
    )


def _time_row(manifest: Manifest, rounds: int) -> Row:
    chance = random.Random(SEED)
    seconds = []
    for _ in range(rounds):
        fleet = [
            _offer(f"d{n}", COST_PER_S * chance.uniform(0.3, 3), LINK_NBYTES_PER_S)
            for n in range(MANY)
        ]
        begun = time.perf_counter()
        partition(manifest, fleet)
        seconds.append(time.perf_counter() - begun)
    return measured(
        "planner.time",
        f"choosing the ranges for {MANY} devices that all differ",
        [MS * each for each in seconds],
        "ms",
        target=at_most(AS_GOOD * BEFORE_MS),
        rival=Rival("trying many orders of the devices", BEFORE_MS),
    )


def _crowd_row(manifest: Manifest, count: int, rounds: int) -> Row:
    """With the time to make the offers, from what each told and what was measured of some."""
    estimates, fleet = Estimates(), tuple(_facts(count))
    for facts in fleet[:: count // MANY]:
        _serves_all(estimates, manifest, facts.device)
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        rates, work = estimates.rates(manifest, False), estimates.work(manifest, False)
        found = answer(Question(manifest, fleet, rates, None, work))
        seconds.append(time.perf_counter() - begun)
        if not found.ranges:
            raise OperatorError(f"{count} devices have no plan: {found.reason}")
    return measured(
        f"planner.time_of_{count}",
        f"the offers and the ranges for {count:,} devices that all differ",
        seconds,
        "s",
        target=at_most(LIMITS_S[count]),
    )


def _serves_all(estimates: Estimates, manifest: Manifest, device: str) -> None:
    whole = PartitionId(manifest.digest, False, 0, len(manifest.segments) - 1)
    costs = [segment.cost for segment in manifest.segments]
    took = [cost / COST_PER_S for cost in costs]
    estimates.learn_task(device, whole, sum(costs), sum(took))
    estimates.learn_profile(device, manifest, whole, took)


def _facts(count: int) -> Iterator[DeviceFacts]:
    chance = random.Random(SEED)
    for number in range(count):
        told = Telemetry(
            connection="bench",
            uptime_s=1.0,
            rss_nbytes=0,
            rss_peak_nbytes=0,
            rss_floor_nbytes=0,
            queue_depth=0,
            held_nbytes=0,
            cost_per_s=COST_PER_S * 10 ** chance.uniform(-0.7, 0.7),
            link_nbytes_per_s=LINK_NBYTES_PER_S * 10 ** chance.uniform(-0.5, 1.0),
            link_rtt_s=chance.uniform(0.002, 0.05),
        )
        yield DeviceFacts(f"d{number}", ROOMY, told, ROOMY_NBYTES, frozenset())
