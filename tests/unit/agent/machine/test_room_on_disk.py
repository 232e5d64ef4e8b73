"""What a device prepares of segments takes room on disk: it counts, gives way, and goes along."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.cache import Cache
from edge_agent.machine.records.events import SegmentsPrepared
from tests.support.agent_bench import CAPABILITIES, Bench, partition
from wire.memory import prepared_need
from wire.messages.commands import Report
from wire.messages.events import Inventory

GRAPH, OTHER = "a" * 64, "b" * 64
BUDGET = 1000


@pytest.fixture
def cache() -> Cache:
    """Two graphs of 100 bytes, each with 200 bytes that were prepared of it."""
    made = Cache(BUDGET)
    for at, digest in enumerate((GRAPH, OTHER)):
        made.add(digest, 100, float(at))
        made.add(f"{digest}.fast", 200, float(at))
    return made


def test_what_is_prepared_counts(cache: Cache) -> None:
    assert cache.nbytes == 600
    assert set(cache.blobs) == {GRAPH, OTHER}


def test_it_goes_with_its_graph(cache: Cache) -> None:
    assert set(cache.begin_removal((GRAPH,))) == {GRAPH, f"{GRAPH}.fast"}
    assert (cache.nbytes, cache.taken_nbytes) == (300, 600)
    cache.removed((GRAPH, f"{GRAPH}.fast"))
    assert cache.taken_nbytes == 300
    cache.discard(OTHER)
    assert cache.nbytes == 0


def test_it_goes_before_its_graph_and_that_of_graphs_in_use_last(cache: Cache) -> None:
    cache.pin((GRAPH,))
    assert cache.make_room(1000, of_pinned=False) == (f"{OTHER}.fast", OTHER)
    assert cache.make_room(1000) == (f"{GRAPH}.fast",)


def test_no_more_goes_than_is_needed(cache: Cache) -> None:
    assert cache.make_room(200) == (f"{GRAPH}.fast",)
    assert cache.make_room(101) == (GRAPH, f"{OTHER}.fast")


def test_using_a_graph_uses_what_was_prepared_of_it(cache: Cache) -> None:
    cache.use((GRAPH,), 5.0)
    assert cache.make_room(1) == (f"{OTHER}.fast",)


A = partition(0, 0, weight_nbytes=10_000)
B = partition(1, 1, weight_nbytes=10_000)
BLOBS = sum(blob.nbytes for blob in A.blobs)


def bench_with(disk_nbytes: int) -> Bench:
    bench = Bench(replace(CAPABILITIES, disk_budget_nbytes=disk_nbytes))
    bench.connect()
    return bench


def test_a_load_may_prepare_what_the_disk_has_left() -> None:
    bench = bench_with(100_000)
    bench.assign(A)
    bench.fetch_all()
    assert bench.all_told(told.Load)[-1].prepare_nbytes == 100_000 - BLOBS


def test_a_load_leaves_room_for_what_is_still_to_be_fetched() -> None:
    bench = bench_with(100_000)
    bench.assign(A, B)
    for blob in A.blobs:
        bench.fetched(blob)
    assert bench.all_told(told.Load)[-1].prepare_nbytes == 100_000 - 2 * BLOBS


def test_what_was_prepared_gives_way_to_what_must_be_fetched() -> None:
    bench = bench_with(2 * BLOBS + 100)
    bench.serve(A)
    name = f"{A.segments[0].graph.digest}.fast"
    bench.do(SegmentsPrepared({name: 150}))
    bench.assign(A, B)
    assert bench.the_last(told.PublishResidency).residency.cached_nbytes == BLOBS
    assert bench.the_last(told.RemoveBlobs).digests == (name,)


def test_what_nobody_uses_gives_way_to_what_is_about_to_be_prepared() -> None:
    need = prepared_need(A.segments[0])
    bench = bench_with(2 * BLOBS + need - 100)
    bench.serve(B)
    bench.assign(A)
    bench.gone(B)
    bench.fetch_all()
    (removed,) = bench.all_told(told.RemoveBlobs)
    assert set(removed.digests) <= {blob.digest for blob in B.blobs}
    assert bench.all_told(told.Load)[-1].prepare_nbytes >= need


def test_the_inventory_names_blobs_alone() -> None:
    bench = bench_with(100_000)
    bench.serve(A)
    bench.do(SegmentsPrepared({f"{A.segments[0].graph.digest}.fast": 150}))
    bench.command(Report())
    said = bench.reported(Inventory)[-1]
    assert set(said.cached) == {blob.digest for blob in A.blobs}
