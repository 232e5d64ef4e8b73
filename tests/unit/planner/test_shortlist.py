"""Of thousands of devices a few are looked at, and the plan is about as good as with all."""

from __future__ import annotations

import dataclasses
from unittest.mock import patch

import pytest

from orchestrator.planner import partitioning, search
from orchestrator.planner.kinds import kinds_of
from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Fleet, Offer, Room, streams
from orchestrator.planner.partitioning import estimated_s, partition, require, worth_asking
from orchestrator.planner.search import PartitionSearch
from orchestrator.planner.shortlist import shortlist
from orchestrator.planner.stages import Work
from tests.support.tiny_manifest import MB, tiny_manifest
from tests.unit.planner.unlike import KINDS, MODEL, unlike
from wire.errors import FleetTooSmall
from wire.memory import resident_need

AS_GOOD = 1.05  # the batch by a plan of the shortlist, against one of all devices
WORK = Work.estimated(MODEL)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_of_the_shortlist_is_about_as_good_as_one_of_all_devices(kind: str) -> None:
    fleet = unlike(kind, 1, 200)
    few = PartitionSearch(MODEL, WORK, fleet, None).best()
    with patch.object(search, "STEPS_LIMIT", 1_000_000):
        among_all = PartitionSearch(MODEL, WORK, fleet, None, most=len(fleet)).best()
    assert few is not None
    assert among_all is not None
    best_s = estimated_s(MODEL, fleet, among_all, WORK)
    assert estimated_s(MODEL, fleet, few, WORK) <= AS_GOOD * best_s


def test_few_kinds_of_many_devices_are_all_looked_at() -> None:
    fleet = [
        dataclasses.replace(offer, device=f"{offer.device}-{copy}")
        for offer in unlike("link", 1, 20)
        for copy in range(100)
    ]
    kinds = kinds_of(fleet)
    assert len(shortlist(kinds, Needs(MODEL), WORK, 20)) == 20


def test_preferred_devices_are_looked_at_whatever_they_are() -> None:
    fleet = unlike("link", 1, 300)
    worst = min(fleet, key=lambda offer: offer.cost_per_s).device
    assert worst not in worth_asking(MODEL, fleet, WORK)
    assert worst in worth_asking(MODEL, fleet, WORK, preferred=[worst])


def test_where_nearly_all_are_preferred_the_best_are_looked_at_all_the_same() -> None:
    fleet = unlike("link", 1, 300)
    plain = estimated_s(MODEL, fleet, partition(MODEL, fleet), WORK)
    names = [offer.device for offer in fleet]
    for preferred in (names, names[:200], names[100:]):
        ranges = partition(MODEL, fleet, preferred=preferred)
        assert estimated_s(MODEL, fleet, ranges, WORK) <= AS_GOOD * plain


def test_of_devices_that_are_alike_the_preferred_ones_are_worth_asking() -> None:
    fleet = [dataclasses.replace(unlike("link", 1, 1)[0], device=f"d{n:03}") for n in range(300)]
    assert "d299" in worth_asking(MODEL, fleet, WORK, preferred=["d299"])


def test_as_many_are_worth_asking_as_a_search_looks_at() -> None:
    fleet = unlike("memory", 2, 300)
    assert len(worth_asking(MODEL, fleet, WORK)) == search.KINDS
    assert worth_asking(MODEL, fleet[:7], WORK) == tuple(offer.device for offer in fleet[:7])


def test_the_only_device_that_takes_a_segment_is_looked_at_however_slow_it_is() -> None:
    manifest = tiny_manifest(weights=[9 * MB] * 6, opsets=[17, 17, 17, 23, 17, 17])
    fleet = [dataclasses.replace(each, max_opset=21) for each in unlike("near", 3, 500)]
    only = Offer(1 << 34, 1 << 34, 1 << 34, 23, 1e8, 1e5, "only")
    ranges = partition(manifest, [*fleet, only])
    assert "only" in {each.device for each in ranges if each.first <= 3 <= each.last}


def test_a_model_that_needs_many_devices_to_fit_gets_more_than_are_fast() -> None:
    """Each device takes one segment, and a hundred segments need more than a shortlist has."""
    manifest = tiny_manifest(weights=[9 * MB] * 100)
    need = resident_need(manifest.segments[:1])
    fleet = [
        dataclasses.replace(each, budget_nbytes=need + number, told_nbytes=1 << 40)
        for number, each in enumerate(unlike("link", 4, 130))
    ]
    assert search.KINDS < 100
    ranges = partition(manifest, fleet)
    assert len({each.device for each in ranges}) == 100


@pytest.mark.parametrize("seed", range(6))
def test_where_all_devices_together_have_a_plan_the_shortlist_has_one(seed: int) -> None:
    """Memory for one or two segments each, so that nearly every plan fails for want of it."""
    need = [resident_need(MODEL.segments[1 : 2 + more]) for more in range(3)]
    fleet = [
        dataclasses.replace(each, budget_nbytes=need[number % 3 // 2], told_nbytes=1 << 40)
        for number, each in enumerate(unlike("memory", seed, 100))
    ]
    whole = PartitionSearch(MODEL, WORK, fleet, None, most=len(fleet)).best()
    assert whole is not None
    assert PartitionSearch(MODEL, WORK, fleet, None).best() is not None


def test_when_there_is_no_plan_with_one_range_each_few_devices_are_loaded_in_turns() -> None:
    fleet = [dataclasses.replace(each, disk_nbytes=14 * MB) for each in unlike("memory", 1, 3)]
    ranges = partition(MODEL, fleet)
    assert len(ranges) > len(fleet)
    assert {each.device for each in ranges} <= {each.device for each in fleet}


def test_ten_thousand_devices_that_all_differ_have_a_plan() -> None:
    fleet = unlike("link", 5, 10_000)
    ranges = partition(MODEL, fleet)
    smaller = estimated_s(MODEL, fleet, partition(MODEL, fleet[:1000]), WORK)
    assert estimated_s(MODEL, Fleet(fleet), ranges, WORK) <= smaller


def test_that_no_device_takes_a_segment_is_told_without_looking_for_plans() -> None:
    fleet = [dataclasses.replace(each, budget_nbytes=MB) for each in unlike("link", 5, 1000)]
    with (
        patch.object(partitioning, "PartitionSearch", side_effect=AssertionError),
        pytest.raises(FleetTooSmall, match="segment 0"),
    ):
        require(MODEL, fleet, None)


def test_a_fleet_finds_devices_by_name() -> None:
    offers = unlike("speed", 1, 3)
    fleet = Fleet(offers)
    assert list(fleet) == offers
    assert fleet.named("d00001") == offers[1]
    assert fleet.named("nobody") is fleet.named(None) is None
    assert Fleet.of(fleet) is fleet


def test_whether_a_device_would_stream_a_range_is_the_same_for_one_as_for_all() -> None:
    needs = Needs(MODEL)
    for offer in unlike("streamed", 6, 20):
        for first in range(needs.count):
            ranges = dict(Room(needs, offer).ranges(first))
            for last in range(first, needs.count):
                assert streams(needs, offer, first, last) == ranges.get(last)
