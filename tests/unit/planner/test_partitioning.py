from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Offer, Room, SegmentRange, fits
from orchestrator.planner.partitioning import estimated_s, partition, require
from orchestrator.planner.shortages import too_small
from orchestrator.planner.stages import (
    HANDLED_NBYTES_PER_S,
    STREAMED_FACTOR,
    STREAMED_NBYTES_PER_S,
    Work,
)
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.errors import FleetTooSmall, InvalidInput, NoDevice
from wire.manifest import Manifest
from wire.memory import resident_need, streamed_need


def offer(
    name: str = "a",
    budget: int = 100 * MB,
    *,
    hold: int = 100 * MB,
    disk: int = 1000 * MB,
    opset: int = 21,
    speed: float = 1e9,
    link: float = 1e7,
) -> Offer:
    return Offer(budget, hold, disk, opset, speed, link, name)


def fleet(count: int, budget: int = 100 * MB, **more: float) -> list[Offer]:
    return [offer(f"p{index}", budget, **more) for index in range(count)]  # type: ignore[arg-type] # floats stand for ints


def spans(ranges: tuple[SegmentRange, ...]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in ranges]


def covers(manifest: Manifest, ranges: tuple[SegmentRange, ...]) -> bool:
    listed = [index for each in ranges for index in range(each.first, each.last + 1)]
    return listed == list(range(len(manifest.segments)))


def test_without_a_device_there_is_no_plan() -> None:
    with pytest.raises(NoDevice, match="start an agent"):
        partition(tiny_manifest(), [])


def test_by_default_every_device_that_makes_the_batch_faster_gets_a_partition() -> None:
    assert spans(partition(tiny_manifest(weights=[MB] * 4), fleet(2))) == [(0, 1), (2, 3)]


def test_there_are_never_more_partitions_than_segments() -> None:
    assert len(partition(tiny_manifest(weights=[MB] * 3), fleet(9))) == 3


def test_the_slowest_stage_decides_where_the_cuts_lie() -> None:
    manifest = tiny_manifest(weights=[MB] * 4, costs=[9e9, 1e9, 1e9, 1e9])
    assert spans(partition(manifest, fleet(2))) == [(0, 0), (1, 3)]


def test_a_cut_with_many_bytes_is_avoided() -> None:
    manifest = tiny_manifest(weights=[MB] * 4, costs=[1e7] * 4, cuts=[1000, 1000, MB, 1000, 1000])
    assert 2 not in [each.first for each in partition(manifest, fleet(3), 3)]


def test_the_faster_device_gets_the_larger_share() -> None:
    manifest = tiny_manifest(weights=[MB] * 8)
    ranges = partition(manifest, [offer("slow", speed=1e9), offer("fast", speed=3e9)])
    assert sorted(each.last - each.first + 1 for each in ranges) == [2, 6]


def test_as_many_partitions_as_were_asked_for() -> None:
    manifest = tiny_manifest(weights=[MB] * 6)
    for wanted in range(1, 7):
        assert len(partition(manifest, fleet(5), wanted)) == wanted


def test_more_partitions_than_devices_when_there_is_no_other_way() -> None:
    """Each device has the operators or the disk for a part in the middle of the other's."""
    manifest = tiny_manifest(weights=[30 * MB] * 6, opsets=[17, 23, 17, 17, 17, 17])
    ranges = partition(
        manifest, [offer("old", disk=130 * MB), offer("new", disk=70 * MB, opset=23)]
    )
    assert len(ranges) == 3 or any(each.device is not None for each in ranges)
    assert covers(manifest, ranges)


def test_fewer_devices_than_partitions_that_fit_stream_rather_than_load_in_turns() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 6)
    ranges = partition(manifest, fleet(2, resident_need(manifest.segments[:2])))
    assert covers(manifest, ranges)
    assert len(ranges) == 2
    assert any(each.streamed for each in ranges)


def test_a_small_device_is_left_out_rather_than_overfilled() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 2)
    ranges = partition(manifest, [offer("big"), offer("big2"), offer("dwarf", 5 * MB)])
    assert spans(ranges) == [(0, 0), (1, 1)]


def test_what_fits_is_not_streamed() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 4)
    budget = streamed_need(manifest.segments[:2])
    asked = partition(manifest, fleet(2, budget), 2)
    assert [each.streamed for each in asked] == [True, True]
    assert not any(each.streamed for each in partition(manifest, fleet(4, budget)))


def test_a_segment_that_fits_nowhere_is_named_with_what_is_missing() -> None:
    manifest = tiny_manifest(weights=[10 * MB, 200 * MB])
    need = resident_need(manifest.segments[1:]) / (1 << 20)
    budget = 100 * MB / (1 << 20)
    says = rf"segment 1 .*{need:.1f} MiB.*{budget:.1f} MiB on p\d.*{need - budget:.1f} MiB"
    with pytest.raises(FleetTooSmall, match=says):
        partition(manifest, fleet(3))


def test_an_operator_set_that_no_device_has_is_named() -> None:
    manifest = tiny_manifest(opsets=[17, 23, 17])
    with pytest.raises(FleetTooSmall, match=r"segment 1 .* opset 23.* 21"):
        partition(manifest, fleet(3))


def test_a_segment_goes_only_where_its_opset_exists() -> None:
    manifest = tiny_manifest(weights=[MB] * 4, opsets=[17, 17, 17, 23])
    ranges = partition(manifest, [offer("old"), offer("new", opset=23, speed=1e8)])
    assert covers(manifest, ranges)
    assert fits(manifest, ranges[-1].first, ranges[-1].last, offer(opset=23))
    assert not fits(manifest, ranges[-1].first, ranges[-1].last, offer(opset=21))


def test_an_item_larger_than_any_device_may_hold_is_refused_with_a_way_out() -> None:
    with pytest.raises(FleetTooSmall, match="--max-shape"):
        partition(tiny_manifest(cuts=[MB, MB, MB, MB]), fleet(3, hold=MB))


def test_a_device_that_refused_as_too_much_is_not_taken_to_stream_it() -> None:
    """It would load it again, as its own budget allows."""
    manifest = tiny_manifest(weights=[10 * MB] * 6)
    budget = resident_need(manifest.segments[:2])
    refused = [
        dataclasses.replace(each, budget_nbytes=budget, told_nbytes=200 * MB) for each in fleet(2)
    ]
    ranges = partition(manifest, refused)
    assert all(each.last - each.first < 2 and not each.streamed for each in ranges)


def test_too_little_disk_is_named() -> None:
    with pytest.raises(FleetTooSmall, match="of disk"):
        partition(tiny_manifest(), fleet(3, disk=MB))


@pytest.mark.parametrize("wanted", [0, -1, 4])
def test_a_number_of_partitions_that_cannot_be_is_refused(wanted: int) -> None:
    with pytest.raises(InvalidInput, match="ask for 1 to 3"):
        partition(tiny_manifest(), fleet(3), wanted)


def test_too_few_partitions_say_so() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 4)
    with pytest.raises(FleetTooSmall, match=r"in 1 partition: .*66\.8 MiB of disk"):
        partition(manifest, fleet(2, disk=70 * MB), 1)
    assert "fit the devices: the" in str(too_small(manifest, fleet(1, disk=70 * MB), None))


segments_drawn = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 400)), min_size=1, max_size=6
)
devices_drawn = st.lists(
    st.tuples(
        st.integers(130, 300),  # any of the segments drawn fits
        st.sampled_from([2e8, 1e9, 1.3e9, 4e9]),
        st.sampled_from([1e6, 5e6, 2e7, 1e9]),
        st.sampled_from([0.0, 0.005]),
    ),
    min_size=1,
    max_size=4,
)


def drawn_manifest(drawn: list[tuple[int, int, int]]) -> Manifest:
    return tiny_manifest(
        weights=[each[0] * MB for each in drawn],
        costs=[each[1] * 1e8 for each in drawn],
        cuts=[each[2] * 10_000 for each in drawn] + [1000],
    )


def drawn_fleet(drawn: list[tuple[int, float, float, float]]) -> list[Offer]:
    return [
        Offer(budget * MB, 100 * MB, 1000 * MB, 21, speed, link, f"p{i}", 0.01, hop_s)
        for i, (budget, speed, link, hop_s) in enumerate(drawn)
    ]


def every_way(manifest: Manifest, offers: list[Offer]) -> list[list[tuple[int, int, Offer]]]:
    """All contiguous ranges on all choices and orders of devices, one each."""
    n = len(manifest.segments)
    ways = []
    for count in range(1, min(n, len(offers)) + 1):
        for inner in itertools.combinations(range(1, n), count - 1):
            spans = list(itertools.pairwise([0, *inner, n]))
            for order in itertools.permutations(offers, count):
                ways.append([(a, b - 1, each) for (a, b), each in zip(spans, order, strict=True)])
    return ways


def pipeline_s(manifest: Manifest, way: list[tuple[int, int, Offer]], items: int) -> float:
    """The first item through all, and each further one after the slowest step; written down here
    once more, by the definition."""
    total, slowest = 0.0, 0.0
    for first, last, each in way:
        segments = manifest.segments[first : last + 1]
        compute_s = sum(segment.cost for segment in segments) / each.cost_per_s
        if not fits(manifest, first, last, each):
            if not fits(manifest, first, last, each, streamed=True):
                return float("inf")
            nbytes = sum(segment.weight_nbytes for segment in segments)
            compute_s = STREAMED_FACTOR * compute_s + nbytes / STREAMED_NBYTES_PER_S
        handled_nbytes = manifest.cuts[first].bound_nbytes + manifest.cuts[last + 1].bound_nbytes
        compute_s += each.hop_s + handled_nbytes / HANDLED_NBYTES_PER_S
        in_s = manifest.cuts[first].bound_nbytes / each.link_nbytes_per_s
        out_s = manifest.cuts[last + 1].bound_nbytes / each.link_nbytes_per_s
        total += in_s + compute_s + out_s + each.rtt_s
        slowest = max(slowest, in_s, compute_s, out_s)
    return total + (items - 1) * slowest


def planned_s(manifest: Manifest, offers: list[Offer], items: int) -> float:
    ranges = partition(manifest, offers, work=Work.estimated(manifest, items))
    assert covers(manifest, ranges)
    assert len({each.device for each in ranges}) == len(ranges)
    by_name = {each.device: each for each in offers}
    way = [(each.first, each.last, by_name[each.device or ""]) for each in ranges]
    seconds = pipeline_s(manifest, way, items)
    work = Work.estimated(manifest, items)
    assert estimated_s(manifest, offers, ranges, work) == pytest.approx(seconds)
    return seconds


@settings(max_examples=150, deadline=None)
@given(segments_drawn, devices_drawn, st.integers(1, 60))
def test_the_batch_is_within_two_percent_of_the_best_of_all_ways(
    drawn: list[tuple[int, int, int]], devices: list[tuple[int, float, float, float]], items: int
) -> None:
    manifest, offers = drawn_manifest(drawn), drawn_fleet(devices)
    best = min(pipeline_s(manifest, way, items) for way in every_way(manifest, offers))
    assert planned_s(manifest, offers, items) <= 1.02 * best


@settings(max_examples=100, deadline=None)
@given(segments_drawn, devices_drawn, st.integers(1, 60))
def test_one_more_device_never_makes_the_batch_slower(
    drawn: list[tuple[int, int, int]], devices: list[tuple[int, float, float, float]], items: int
) -> None:
    manifest, offers = drawn_manifest(drawn), drawn_fleet(devices)
    slow = offer("slow", speed=2e7, link=1e5)
    without = planned_s(manifest, offers, items)
    assert planned_s(manifest, [*offers, slow], items) <= 1.01 * without


@settings(max_examples=60, deadline=None)
@given(segments_drawn, devices_drawn, st.integers(1, 6))
def test_a_number_that_is_asked_for_is_met_as_well_as_it_can_be(
    drawn: list[tuple[int, int, int]], devices: list[tuple[int, float, float, float]], wanted: int
) -> None:
    manifest, offers = drawn_manifest(drawn), drawn_fleet(devices)
    wanted = min(wanted, len(drawn))
    ranges = partition(manifest, offers, wanted)
    assert covers(manifest, ranges)
    assert len(ranges) == wanted
    if wanted <= len(offers):
        ways = [way for way in every_way(manifest, offers) if len(way) == wanted]
        best = min(pipeline_s(manifest, way, 16) for way in ways)
        assert estimated_s(manifest, offers, ranges, Work.estimated(manifest)) <= 1.02 * best


@settings(deadline=None)
@given(segments_drawn, devices_drawn, st.integers(0, 300))
def test_a_device_has_room_for_just_the_ranges_that_fit_it(
    drawn: list[tuple[int, int, int]], devices: list[tuple[int, float, float, float]], told: int
) -> None:
    manifest = drawn_manifest(drawn)
    each = dataclasses.replace(drawn_fleet(devices)[0], hold_nbytes=6 * MB, told_nbytes=told * MB)
    for first in range(len(drawn)):
        found = dict(Room(Needs(manifest), each).ranges(first))
        for last in range(first, len(drawn)):
            whole = fits(manifest, first, last, each)
            streamed = fits(manifest, first, last, each, streamed=True)
            assert found.get(last) == (False if whole else True if streamed else None)


def test_a_slow_phone_is_left_out() -> None:
    manifest = tiny_manifest(weights=[MB] * 6)
    ranges = partition(manifest, [*fleet(2), offer("slow", speed=1e7)])
    assert {each.device for each in ranges} == {"p0", "p1"}


def test_a_phone_on_a_slow_link_is_left_out() -> None:
    manifest = tiny_manifest(weights=[MB] * 6, cuts=[MB] * 7)
    ranges = partition(manifest, [*fleet(2), offer("far", link=1e5)])
    assert {each.device for each in ranges} == {"p0", "p1"}


def test_a_model_too_small_to_share_stays_on_one_device() -> None:
    manifest = tiny_manifest(weights=[MB] * 4, costs=[1e4] * 4)
    offers = [dataclasses.replace(each, hop_s=0.003, rtt_s=0.01) for each in fleet(4)]
    assert len(partition(manifest, offers)) == 1


def test_what_was_measured_moves_the_cuts() -> None:
    manifest = tiny_manifest(weights=[MB] * 4)
    cut_nbytes = tuple(float(cut.bound_nbytes) for cut in manifest.cuts)
    work = Work((6e9, 1e9, 1e9, 1e9), cut_nbytes)
    assert spans(partition(manifest, fleet(2))) == [(0, 1), (2, 3)]
    assert spans(partition(manifest, fleet(2), work=work)) == [(0, 0), (1, 3)]


def refusal(ask: Callable[..., object], manifest: Manifest, offers: list[Offer]) -> str | None:
    try:
        ask(manifest, offers, None)
    except FleetTooSmall as error:
        return str(error)
    return None


@settings(max_examples=40, deadline=None)
@given(segments_drawn, devices_drawn)
def test_what_is_said_to_be_possible_is(
    drawn: list[tuple[int, int, int]], devices: list[tuple[int, float, float, float]]
) -> None:
    manifest = drawn_manifest(drawn)
    offers = [dataclasses.replace(each, budget_nbytes=20 * MB) for each in drawn_fleet(devices)]
    assert refusal(partition, manifest, offers) == refusal(require, manifest, offers)


def test_many_devices_of_many_kinds_are_planned_in_good_time() -> None:
    """So many that not all orders can be tried: still no slower than by any one order."""
    manifest = tiny_manifest(weights=[20 * MB] * 40)
    offers = [offer(f"p{i}", (100 + 7 * i) * MB, speed=1e9 * (1 + i)) for i in range(16)]
    ranges = partition(manifest, offers)
    assert covers(manifest, ranges)
    assert len(ranges) > 8
    work = Work.estimated(manifest)
    per_speed = sum(work.costs) / sum(each.cost_per_s for each in offers)
    assert estimated_s(manifest, offers, ranges, work) < 1.6 * 16 * per_speed + 16 * per_speed
