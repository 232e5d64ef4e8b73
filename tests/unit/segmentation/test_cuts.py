"""Choosing cuts is pure arithmetic that respects limits, wishes and places that may not be cut."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.segmentation.cutting.cuts import TrunkCosts, choose

MIB = 1 << 20


@st.composite
def trunks(draw: st.DrawFn) -> TrunkCosts:
    n = draw(st.integers(1, 40))
    costs = draw(st.lists(st.floats(0, 1e10), min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(0, 40 * MIB), min_size=n, max_size=n))
    bytes_or_none = st.floats(0, 1e9) | st.just(math.inf)
    crossing = draw(st.lists(bytes_or_none, min_size=n, max_size=n))
    return TrunkCosts(tuple(costs), tuple(weights), tuple(crossing))


@settings(deadline=None)
@given(trunk=trunks(), limit=st.integers(1, 64 * MIB))
def test_only_places_that_may_be_cut_are_cut(trunk: TrunkCosts, limit: int) -> None:
    places = choose(trunk, limit)
    assert set(places) <= set(trunk.places)
    assert list(places) == sorted(set(places))


@settings(deadline=None)
@given(
    weights=st.lists(st.integers(0, 16 * MIB), min_size=1, max_size=40),
    cost=st.floats(0, 1e10),
    crossing=st.floats(0, 1e9),
)
def test_no_segment_weighs_more_than_the_limit_if_no_node_does(
    weights: list[int], cost: float, crossing: float
) -> None:
    n = len(weights)
    trunk = TrunkCosts((cost,) * n, tuple(weights), (crossing,) * n)
    stops = [0, *choose(trunk, 16 * MIB), n]
    assert max(sum(weights[a:b]) for a, b in itertools.pairwise(stops)) <= 16 * MIB


@settings(deadline=None)
@given(trunk=trunks(), segments=st.integers(1, 50))
def test_a_wished_number_is_met_where_there_are_places(trunk: TrunkCosts, segments: int) -> None:
    assert len(choose(trunk, 16 * MIB, segments)) == min(segments - 1, len(trunk.places))


def test_equal_layers_are_shared_out_equally() -> None:
    trunk = TrunkCosts((1e9,) * 12, (2 * MIB,) * 12, (1e5,) * 12)
    assert choose(trunk, 16 * MIB, 4) == (3, 6, 9)


def test_the_cheaper_of_two_neighbouring_places_is_cut() -> None:
    crossing = [4e6] * 12
    crossing[6] = 1e6
    trunk = TrunkCosts((1e9,) * 12, (2 * MIB,) * 12, tuple(crossing))
    assert choose(trunk, 16 * MIB, 2) == (6,)


def test_a_heavy_node_stands_alone() -> None:
    trunk = TrunkCosts((0.0, 1e9, 1e9), (47 * MIB, 2 * MIB, 2 * MIB), (0, 1e6, 1e6))
    assert choose(trunk, 16 * MIB)[0] == 1


def test_nothing_worth_a_segment_is_not_cut() -> None:
    assert choose(TrunkCosts((10.0,) * 5, (0,) * 5, (10.0,) * 5), 16 * MIB) == ()


@pytest.mark.parametrize("n", [5000])
def test_a_very_long_line_is_cut_in_time(n: int) -> None:
    trunk = TrunkCosts((1e6,) * n, (1 << 16,) * n, (1e5,) * n)
    assert 10 < len(choose(trunk, 16 * MIB)) < 60
