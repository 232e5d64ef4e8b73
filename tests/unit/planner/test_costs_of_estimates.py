"""Learning and asking cost the same however many devices there are: counted in calls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from orchestrator.planner.estimates import Estimates
from tests.support.calls import count_calls
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.ids import PartitionId

FEW, MANY = 10, 1000
LIMIT = 1.5  # times the calls
MODEL = tiny_manifest(weights=[MB] * 6)
OTHER = tiny_manifest("other", weights=[MB] * 2)
PARTS = (
    PartitionId(MODEL.digest, False, 0, 2),
    PartitionId(MODEL.digest, False, 3, 5),
    PartitionId(OTHER.digest, False, 0, 1),
)


def heard(estimates: Estimates, number: int, slower: float = 1.0) -> None:
    """All that a device tells of a task, a profile and a load."""
    name, part = f"d{number}", PARTS[number % 2]
    seconds = slower * (1.0 + number % 7)
    estimates.learn_task(name, part, 3e9, 3 * seconds)
    estimates.learn_frames(name, MODEL, part, 0.01, (1000, 1000))
    estimates.learn_profile(name, MODEL, part, [seconds] * 3)
    estimates.learn_load(name, 50 * MB, 1.0, 50 * MB, 1.0)


def with_devices(count: int) -> Estimates:
    estimates = Estimates()
    for number in range(count):
        heard(estimates, number)
    estimates.learn_task("d1", PARTS[2], 2e9, 1.0)
    estimates.work(MODEL, False)
    return estimates


def plan_facts(estimates: Estimates, name: str) -> None:
    """All that a plan asks about one device."""
    part = PARTS[0]
    estimates.work(MODEL, False)
    rates = estimates.rates_on(MODEL, False, name)
    rates.cost_per_s(name, None)
    rates.link_nbytes_per_s(name, None)
    estimates.cost_per_s(name, None)
    estimates.link_nbytes_per_s(name, None)
    estimates.compute_s(name, None, part, MODEL.segments[:3])
    estimates.load_s(name, None, 50 * MB, 3)


EVENTS: dict[str, Callable[[Estimates], object]] = {
    "a device tells": lambda estimates: heard(estimates, 3, slower=1.3),
    "a newcomer tells": lambda estimates: heard(estimates, 10_001),
    "a device that is known is asked about": lambda estimates: plan_facts(estimates, "d3"),
    "a newcomer is asked about": lambda estimates: plan_facts(estimates, "newcomer"),
    "a device tells, and then plans are made": lambda estimates: (
        heard(estimates, 3, slower=1.3),
        plan_facts(estimates, "d3"),
        plan_facts(estimates, "newcomer"),
    ),
    "a device is forgotten, and then plans are made": lambda estimates: (
        estimates.forget("d5"),
        plan_facts(estimates, "newcomer"),
    ),
    "a model that one device ran is forgotten": lambda estimates: estimates.forget_model(
        OTHER.digest
    ),
    "somebody watches what segments take": lambda estimates: [
        estimates.of(MODEL, False).segment_s(index) for index in range(6)
    ],
    "somebody asks which segments were measured": lambda estimates: (
        estimates.of(MODEL, False).measured
    ),
}


@pytest.mark.parametrize("what", EVENTS)
def test_estimates_cost_the_same_for_ten_devices_and_for_a_thousand(what: str) -> None:
    few, many = with_devices(FEW), with_devices(MANY)
    calls = [count_calls(partial(EVENTS[what], each)) for each in (few, many)]
    assert calls[1] <= LIMIT * calls[0]


def test_what_is_learned_of_a_thousand_devices_costs_a_hundred_times_that_of_ten() -> None:
    calls = [count_calls(partial(with_devices, count)) for count in (FEW, MANY)]
    assert calls[1] <= LIMIT * MANY / FEW * calls[0]


def test_a_measurement_that_moved_by_little_is_not_fitted_anew() -> None:
    estimates = with_devices(FEW)
    before = estimates.of(MODEL, False).revision
    heard(estimates, 3, slower=1.001)
    assert estimates.of(MODEL, False).revision == before
    for _ in range(9):
        heard(estimates, 3, slower=2.0)
    assert estimates.of(MODEL, False).revision > before
