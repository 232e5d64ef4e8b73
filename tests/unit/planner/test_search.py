"""Plans are the best of all where all can be tried, and elsewhere as good as another search's."""

from __future__ import annotations

import itertools
import random
from statistics import mean
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.planner import search
from orchestrator.planner.incumbent import Incumbent
from orchestrator.planner.kinds import kinds_of
from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Offer, SegmentRange
from orchestrator.planner.options import Rows, pace_of, rows_of
from orchestrator.planner.partitioning import estimated_s, partition
from orchestrator.planner.prices import Prices, Rules, bound_of
from orchestrator.planner.search import ALIKE, PartitionSearch
from orchestrator.planner.stages import Work
from tests.support.tiny_manifest import MB, tiny_manifest
from tests.unit.planner.unlike import KINDS, MODEL, unlike
from wire.memory import resident_need, streamed_need

RECORDED_S = {
    "speed": (1.22165, 1.21871, 1.22387, 1.22132, 1.21549, 1.22337, 1.23479, 1.23376),
    "link": (0.74737, 0.97037, 0.70843, 0.90561, 0.87686, 0.83549, 0.94462, 1.03949),
    "memory": (2.13418, 1.94494, 1.91442, 1.94177, 2.262, 2.04203, 1.57171, 1.54301),
    "streamed": (1.40561, 0.90598, 1.21604, 0.78348, 0.94813, 0.94164, 1.37311, 1.01681),
    "near": (0.47774, 0.49417, 0.48495, 0.55038, 0.52166, 0.38126, 0.44439, 0.45966),
}
"""A batch of 16 items on each of these fleets, by the plan of a search that went through devices in
several orders and exchanged pairs of them, in some 0.5 s each."""


def seconds(fleet: list[Offer], ranges: tuple[SegmentRange, ...], items: int = 16) -> float:
    return estimated_s(MODEL, fleet, ranges, Work.estimated(MODEL, items))


@pytest.mark.parametrize("kind", KINDS)
def test_sixteen_unlike_devices_are_planned_as_well_as_by_trying_many_orders(kind: str) -> None:
    ratios = []
    for seed, recorded_s in enumerate(RECORDED_S[kind]):
        fleet = unlike(kind, seed)
        ratios.append(seconds(fleet, partition(MODEL, fleet)) / recorded_s)
    assert max(ratios) <= 1.02
    assert mean(ratios) <= 1.0 + 1e-4


# --- the best there is ----------------------------------------------------------------------------


def best_s(rows: Rows, rules: Rules, more: int) -> float:
    """Of all ways to go from option to option to the end."""
    best = float("inf")
    stack = [(0, 0.0, 0.0, (0,) * len(rules.counts), 0)]
    while stack:
        cut, fill_s, pace_s, used, ranges = stack.pop()
        if cut == len(rows):
            if rules.least <= ranges <= rules.most:
                best = min(best, fill_s + more * pace_s)
            continue
        for end, option_s, option_pace_s, kind, _ in rows[cut]:
            if used[kind] < rules.counts[kind]:
                after = (*used[:kind], used[kind] + 1, *used[kind + 1 :])
                pace = max(pace_s, option_pace_s)
                stack.append((end, fill_s + option_s, pace, after, ranges + 1))
    return best


@st.composite
def problems(draw: st.DrawFn, devices: int = 4) -> tuple[Rows, Rules, int]:
    """Options with seconds of any size, not only such as a model and devices could have."""
    end = draw(st.integers(1, 5))
    counts = tuple(draw(st.lists(st.integers(1, 2), min_size=1, max_size=devices)))
    chance = random.Random(draw(st.integers(0, 2**32)))
    rows: Rows = []
    for cut in range(end):
        row = [
            (after, chance.uniform(0.1, 2) * (after - cut), chance.uniform(0.1, 2), kind, False)
            for after in range(cut + 1, end + 1)
            for kind in range(len(counts))
            if chance.random() < 0.8
        ]
        rows.append(sorted(row, key=pace_of))
    most = draw(st.integers(1, min(end, sum(counts))))
    return rows, Rules(counts, draw(st.integers(1, most)), most), draw(st.integers(0, 20))


@settings(max_examples=300, deadline=None)
@given(problems(), st.lists(st.floats(0, 3), min_size=5, max_size=5), st.booleans())
def test_whatever_the_prices_no_better_plan_is_below_the_bound_or_loses_an_option(
    problem: tuple[Rows, Rules, int], prices: list[float], limited: bool
) -> None:
    rows, rules, _ = problem
    first = Prices(tuple(prices[: len(rules.counts)]), prices[-1] - 1.5)
    best = best_s(rows, rules, 0)
    known = Incumbent(0, best * 1.1 if limited else float("inf"))
    bound, left = bound_of(rows, rules, [first], known)
    if known.limit_s > best:
        assert bound.fill_s <= best + 1e-9
        assert best_s(left, rules, 0) == best


@settings(max_examples=200, deadline=None)
@given(problems())
def test_a_sweep_through_all_paces_finds_the_best_plan(problem: tuple[Rows, Rules, int]) -> None:
    rows, rules, more = problem
    known = Incumbent(more)
    search.Sweep(rows, rules, known, 0.0, search.EXACT_STEPS_LIMIT, search.EXACT_STATES * 4).run()
    best = best_s(rows, rules, more)
    assert (known.limit_s if known.path else float("inf")) == pytest.approx(best, rel=1e-9)


def drawn_offer(draw: st.DrawFn, name: str) -> Offer:
    return Offer(
        draw(st.integers(100, 300)) * MB,
        100 * MB,
        1000 * MB,
        21,
        draw(st.sampled_from([2e8, 1e9, 1.3e9, 4e9])),
        draw(st.sampled_from([1e6, 5e6, 2e7, 1e9])),
        name,
        0.01,
        draw(st.sampled_from([0.0, 0.005])),
    )


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 4), st.integers(1, 60))
def test_few_devices_get_the_best_plan_but_for_ranges_that_are_not_worth_a_device(
    data: st.DataObject, count: int, devices: int, items: int
) -> None:
    chance = data.draw(st.randoms(use_true_random=False))
    manifest = tiny_manifest(
        weights=[chance.randint(1, 40) * MB for _ in range(count)],
        costs=[chance.randint(1, 20) * 1e8 for _ in range(count)],
        cuts=[chance.randint(1, 400) * 10_000 for _ in range(count + 1)],
    )
    offers = [data.draw(st.composite(drawn_offer)(name)) for name in "abcd"[:devices]]
    work, kinds = Work.estimated(manifest, items), kinds_of(offers)
    counts = tuple(len(kind.devices) for kind in kinds)
    rows = rows_of(Needs(manifest), work, kinds)
    best = best_s(rows, Rules(counts, 1, count), items - 1)
    about = PartitionSearch(manifest, work, offers, None).best()
    with patch.object(search, "ALIKE", 0.0):
        exact = PartitionSearch(manifest, work, offers, None).best()
    assert (about is None) == (exact is None) == (best == float("inf"))
    if about is not None and exact is not None:
        assert estimated_s(manifest, offers, exact, work) == pytest.approx(best, rel=1e-9)
        assert estimated_s(manifest, offers, about, work) <= best * (1 + ALIKE) * (1 + 1e-9)
        assert len(about) <= len(exact)


# --- what ranges need -----------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=7))
def test_the_needs_of_all_ranges_are_those_that_the_agent_asks_about(
    drawn: list[tuple[int, bool]],
) -> None:
    manifest = tiny_manifest(weights=[nbytes * MB for nbytes, _ in drawn])
    needs, segments = Needs(manifest), manifest.segments
    for first, last in itertools.combinations_with_replacement(range(len(drawn)), 2):
        some = segments[first : last + 1]
        assert needs.resident[first][last - first] == resident_need(some)
        assert needs.streamed[first][last - first] == streamed_need(some)
        assert needs.weight_nbytes(first, last) == sum(each.weight_nbytes for each in some)
        unique = {blob.digest: blob.nbytes for each in some for blob in each.blobs}
        assert needs.disk[first][last - first] == sum(unique.values())


# --- what is equal --------------------------------------------------------------------------------


def test_alike_devices_are_one_kind_and_each_serves_one_range() -> None:
    offer = unlike("near", 1, 1)[0]
    fleet = [
        Offer(*(getattr(offer, name) for name in Offer.__slots__[:6]), f"d{n:02}", 0.001)
        for n in range(40)
    ]
    assert [len(kind.devices) for kind in kinds_of(fleet)] == [40]
    ranges = partition(MODEL, fleet)
    assert [each.device for each in ranges] == [f"d{n:02}" for n in range(len(ranges))]


def test_of_plans_that_take_equally_long_the_one_with_the_long_ranges_first_is_taken() -> None:
    manifest = tiny_manifest(weights=[MB] * 6)
    fast, slow, other = (
        Offer(1 << 40, 1 << 40, 1 << 40, 99, speed, 1e9, name)
        for speed, name in ((4e9, "z"), (1e9, "a"), (1e9, "b"))
    )
    for order in itertools.permutations([fast, slow, other]):
        ranges = partition(manifest, list(order), 3)
        assert [(each.first, each.last, each.device) for each in ranges] == [
            (0, 3, "z"),
            (4, 4, "a"),
            (5, 5, "b"),
        ]
