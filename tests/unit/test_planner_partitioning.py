from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.machine.partitioning import Offer, Range, bottleneck_s, fits, partition
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.errors import FleetTooSmall, InvalidInput, NoDevice
from wire.manifest import Manifest

SESSION = 1 << 20


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


def spans(ranges: tuple[Range, ...]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in ranges]


def covers(manifest: Manifest, ranges: tuple[Range, ...]) -> bool:
    listed = [index for each in ranges for index in range(each.first, each.last + 1)]
    return listed == list(range(len(manifest.segments)))


def test_without_a_device_there_is_no_plan() -> None:
    with pytest.raises(NoDevice, match="start an agent"):
        partition(tiny_manifest(), [])


def test_by_default_every_device_gets_a_partition() -> None:
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


def test_more_partitions_than_devices_when_memory_leaves_no_other_way() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 6)
    ranges = partition(manifest, fleet(2, 70 * MB))
    assert len(ranges) == 3
    assert covers(manifest, ranges)
    assert not any(each.streamed for each in ranges)


def test_a_small_device_is_left_out_rather_than_overfilled() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 2)
    ranges = partition(manifest, [offer("big"), offer("big2"), offer("dwarf", 5 * MB)])
    assert spans(ranges) == [(0, 0), (1, 1)]


def test_streaming_is_used_only_when_the_person_asks_for_so_few_partitions() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 4)
    asked = partition(manifest, fleet(2, 40 * MB), 2)
    assert [each.streamed for each in asked] == [True, True]
    assert not any(each.streamed for each in partition(manifest, fleet(2, 40 * MB)))


def test_a_segment_that_fits_nowhere_is_named_with_what_is_missing() -> None:
    manifest = tiny_manifest(weights=[10 * MB, 200 * MB])
    with pytest.raises(
        FleetTooSmall, match=r"segment 1 .*201\.\d MB.*100\.0 MB on p\d.*101\.\d MB"
    ):
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


def test_too_little_disk_is_named() -> None:
    with pytest.raises(FleetTooSmall, match="of disk"):
        partition(tiny_manifest(), fleet(3, disk=MB))


@pytest.mark.parametrize("wanted", [0, -1, 4])
def test_a_number_of_partitions_that_cannot_be_is_refused(wanted: int) -> None:
    with pytest.raises(InvalidInput, match="ask for 1 to 3"):
        partition(tiny_manifest(), fleet(3), wanted)


def test_too_few_partitions_say_so() -> None:
    manifest = tiny_manifest(weights=[30 * MB] * 4)
    with pytest.raises(FleetTooSmall, match=r"in 1 partitions.*70\.0 MB of disk"):
        partition(manifest, fleet(2, disk=70 * MB), 1)


def brute_force(manifest: Manifest, offers: list[Offer], count: int) -> float:
    n = len(manifest.segments)
    best = float("inf")
    for inner in itertools.combinations(range(1, n), count - 1):
        edges = [0, *inner, n]
        ranges = [(a, b - 1) for a, b in itertools.pairwise(edges)]
        for order in itertools.permutations(offers, count):
            pairs = list(zip(ranges, order, strict=True))
            if all(fits(manifest, first, last, each) for (first, last), each in pairs):
                best = min(best, max(stage_s(manifest, *span, each) for span, each in pairs))
    return best


def stage_s(manifest: Manifest, first: int, last: int, each: Offer) -> float:
    cost = sum(segment.cost for segment in manifest.segments[first : last + 1])
    return cost / each.cost_per_s + manifest.cuts[first].bound_nbytes / each.link_nbytes_per_s


segments_drawn = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 30)), min_size=2, max_size=7
)


@settings(max_examples=60, deadline=None)
@given(segments_drawn, st.integers(1, 4), st.integers(42, 90))
def test_the_slowest_stage_is_never_slower_than_brute_force_finds(
    drawn: list[tuple[int, int, int]], devices: int, budget: int
) -> None:
    manifest = drawn_manifest(drawn)
    offers = fleet(devices, budget * MB)
    ranges = partition(manifest, offers)
    assert covers(manifest, ranges)
    if len(ranges) <= devices:
        slowest = max(stage_s(manifest, each.first, each.last, offers[0]) for each in ranges)
        assert slowest <= brute_force(manifest, offers, len(ranges)) * (1 + 1e-9)
    else:
        possible = range(1, min(devices, len(drawn)) + 1)
        assert all(brute_force(manifest, offers, count) == float("inf") for count in possible)


@settings(max_examples=40, deadline=None)
@given(
    segments_drawn,
    st.lists(
        st.tuples(st.integers(42, 200), st.sampled_from([1e9, 2e9, 4e9])), min_size=1, max_size=4
    ),
)
def test_unequal_devices_are_used_as_well_as_brute_force_would(
    drawn: list[tuple[int, int, int]], kinds: list[tuple[int, float]]
) -> None:
    manifest = drawn_manifest(drawn)
    offers = [offer(f"p{i}", budget * MB, speed=speed) for i, (budget, speed) in enumerate(kinds)]
    ranges = partition(manifest, offers)
    assert covers(manifest, ranges)
    if len(ranges) <= len(offers):
        best = brute_force(manifest, offers, len(ranges))
        assert bottleneck_s(manifest, offers, ranges) == pytest.approx(best)


def drawn_manifest(drawn: list[tuple[int, int, int]]) -> Manifest:
    return tiny_manifest(
        weights=[each[0] * MB for each in drawn],
        costs=[each[1] * 1e8 for each in drawn],
        cuts=[each[2] * 10_000 for each in drawn] + [1000],
    )


def test_many_devices_of_many_kinds_are_planned_in_good_time() -> None:
    manifest = tiny_manifest(weights=[20 * MB] * 40)
    offers = [offer(f"p{i}", (60 + 7 * i) * MB, speed=1e9 * (1 + i)) for i in range(16)]
    ranges = partition(manifest, offers)
    assert covers(manifest, ranges)
    assert len(ranges) == 16
