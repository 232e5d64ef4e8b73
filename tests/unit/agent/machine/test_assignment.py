"""What the agent makes of assignments: fetch, load, evict, within its budgets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from tests.support.agent_bench import CAPABILITIES, MIB, Bench, blob, partition, route
from wire.ids import ActivationId
from wire.lifecycle import IllegalTransition
from wire.memory import streamed_need
from wire.messages.commands import Evict
from wire.messages.events import (
    FetchStarted,
    Inventory,
    PartitionEvicted,
    PartitionLoaded,
)

A, B, C = partition(0, 1), partition(2, 3), partition(4, 5)


def test_nothing_may_come_before_the_start() -> None:
    with pytest.raises(IllegalTransition, match="before Started"):
        AgentMachine("phone", CAPABILITIES).handle(happened.Ticked(), 0.0)


def test_what_is_missing_is_fetched_at_once_and_at_most_two_at_a_time() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    assert [fetch.blob for fetch in bench.all_last(told.FetchBlob)] == list(A.blobs[:2])
    assert bench.the_last(told.ObeyAssignment).assignment.partitions == (A,)
    bench.fetched(A.blobs[0])
    assert bench.the_last(told.FetchBlob).blob == A.blobs[2]


def test_only_what_is_not_cached_is_fetched() -> None:
    bench = Bench(cached={entry.digest: entry.nbytes for entry in A.blobs[:3]})
    bench.connect()
    bench.assign(A)
    assert bench.the_last(told.FetchBlob).blob == A.blobs[3]
    assert bench.reported(FetchStarted)[0].missing_nbytes == A.blobs[3].nbytes


def test_a_blob_of_two_partitions_is_fetched_once() -> None:
    shared = replace(B, segments=(replace(A.segments[0], index=2), B.segments[1]))
    bench = Bench()
    bench.connect()
    bench.assign(A, shared)
    bench.fetch_all()
    digests = [fetch.blob.digest for fetch in bench.all_told(told.FetchBlob)]
    assert len(digests) == len(set(digests)) == 6


def test_a_partition_is_loaded_as_soon_as_it_is_cached() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    bench.now += 2.0
    bench.fetch_all()
    load = bench.the_last(told.Load)
    left = CAPABILITIES.disk_budget_nbytes - sum(blob.nbytes for blob in A.blobs)
    assert load == told.Load(1, A, False, CAPABILITIES.memory_budget_nbytes, left)
    bench.ready(A)
    loaded = bench.reported(PartitionLoaded)[0]
    assert (loaded.tier, loaded.fetched_nbytes) == (3, sum(b.nbytes for b in A.blobs))
    assert loaded.fetch_s == pytest.approx(2.0)
    assert bench.residency(A).status == "resident"


def test_a_partition_that_was_cached_says_that_it_fetched_nothing() -> None:
    bench = Bench(cached={entry.digest: entry.nbytes for entry in A.blobs})
    bench.connect()
    bench.assign(A)
    bench.ready(A)
    loaded = bench.reported(PartitionLoaded)[0]
    assert (loaded.fetch_s, loaded.fetched_nbytes) == (0.0, 0)
    assert bench.reported(FetchStarted) == []


def test_the_second_partition_stays_cached_while_the_first_is_resident() -> None:
    bench = Bench()
    bench.serve(A, B)
    assert bench.residency(A).status == "resident"
    assert bench.residency(B).status == "cached"
    assert len(bench.all_told(told.Load)) == 1


def test_what_is_not_listed_any_more_is_unloaded_and_its_going_awaited() -> None:
    bench = Bench()
    bench.serve(A)
    bench.assign(B)
    assert bench.the_last(told.Unload).partition == A.partition
    bench.fetch_all()
    assert bench.all_last(told.Load) == []
    bench.gone(A)
    assert bench.the_last(told.Load).assigned == B
    assert bench.reported(PartitionEvicted)[0].partition == A.partition


def test_a_running_task_ends_before_its_partition_leaves() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(0)
    bench.assign(routes=(route(2, "next"),))
    assert bench.all_last(told.Unload) == []
    bench.executed(bench.running)
    assert bench.the_last(told.SendFrame) == told.SendFrame(ActivationId("r", 0, 2), "next")
    assert bench.the_last(told.Unload).partition == A.partition


def test_what_is_unlisted_while_it_loads_is_unloaded_when_it_is_ready() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    bench.fetch_all()
    bench.assign()
    assert bench.all_last(told.Unload) == []
    bench.ready(A)
    assert bench.the_last(told.Unload).partition == A.partition


def test_the_same_partition_with_other_segments_is_loaded_anew() -> None:
    other = partition(0, 1, weight_nbytes=2000)
    bench = Bench()
    bench.serve(A)
    bench.assign(other)
    assert bench.the_last(told.Unload).partition == A.partition
    bench.gone(A)
    bench.fetch_all()
    assert bench.the_last(told.Load).assigned == other


def test_fetches_of_what_is_not_listed_any_more_are_cancelled() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    bench.assign(B)
    assert [entry.digest for entry in bench.all_last(told.CancelFetch)] == [
        b.digest for b in A.blobs[:2]
    ]
    assert bench.all_last(told.FetchBlob) == []
    bench.do(happened.FetchFailed(A.blobs[0].digest, "cancelled", "asked", False))
    assert bench.the_last(told.FetchBlob).blob == B.blobs[0]


def test_a_fetch_listed_again_while_it_is_cancelled_waits_for_the_answer() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    bench.assign()
    bench.assign(A)
    digest = A.blobs[0].digest
    assert digest not in [fetch.blob.digest for fetch in bench.all_last(told.FetchBlob)]
    bench.do(happened.FetchFailed(digest, "cancelled", "asked", False))
    assert bench.the_last(told.FetchBlob).blob.digest == digest


def test_an_older_assignment_is_ignored_and_counted() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A, generation=2, revision=1)
    assert bench.assign(B, generation=1, revision=9) == []
    assert bench.machine.counts["stale_assignments"] == 1
    assert bench.machine.assignment is not None
    assert bench.machine.assignment.partitions == (A,)
    assert bench.assign(B, generation=2, revision=1) == []
    assert bench.machine.counts["stale_assignments"] == 1


def test_residency_answers_the_revision() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A, generation=3, revision=7)
    residency = bench.the_last(told.PublishResidency).residency
    assert (residency.generation, residency.revision, residency.connection) == (3, 7, "c1")
    assert bench.residency(A).status == "fetching"


def test_fetch_progress_is_published_at_most_twice_a_second() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    bench.do(happened.FetchProgressed(A.blobs[1].digest, 500))
    assert bench.all_last(told.PublishResidency) == []
    assert bench.machine.wake_at() == pytest.approx(bench.now + 0.5)
    bench.wait(0.5)
    assert bench.residency(A).fetched_nbytes == 500
    assert bench.all_last(told.PublishResidency) != []
    bench.wait(0.5)
    assert bench.all_last(told.PublishResidency) == []


def test_a_partition_over_the_budget_is_streamed_if_its_segments_fit() -> None:
    bench = Bench(replace(CAPABILITIES, memory_budget_nbytes=streamed_need(A.segments)))
    bench.connect()
    bench.assign(A)
    bench.fetch_all()
    assert bench.the_last(told.Load).streamed
    assert bench.residency(A).streamed


def test_a_partition_of_which_no_segment_fits_fails_with_the_numbers() -> None:
    bench = Bench(replace(CAPABILITIES, memory_budget_nbytes=MIB))
    bench.connect()
    bench.assign(A)
    failure = bench.residency(A).failure
    assert failure is not None
    assert failure.kind == "over_budget"
    assert str(MIB) in failure.reason
    assert bench.all_told(told.FetchBlob) == []


def test_a_partition_over_the_disk_budget_fails_and_says_disk() -> None:
    bench = Bench(replace(CAPABILITIES, disk_budget_nbytes=3000))
    bench.connect()
    bench.assign(A, B)
    failure = bench.residency(B).failure
    assert failure is not None
    assert (failure.kind, "disk" in failure.reason) == ("over_budget", True)
    assert bench.residency(A).status == "fetching"


def test_room_on_disk_is_made_by_removing_what_was_used_longest_ago() -> None:
    bench = Bench(replace(CAPABILITIES, disk_budget_nbytes=5000))
    bench.serve(A)
    bench.now += 1
    bench.assign(B)
    bench.gone(A)
    bench.fetch_all()
    bench.ready(B)
    bench.now += 1
    bench.assign(C)
    bench.gone(B)
    removed: list[str] = []
    while waiting := [r for r in bench.all_told(told.RemoveBlobs) if r.digests[0] not in removed]:
        removed += waiting[0].digests
        bench.do(happened.BlobsRemoved(waiting[0].digests))
        bench.fetch_all()
    assert bench.all_told(told.Load)[-1].assigned == C
    assert removed[0] in [b.digest for b in A.blobs]
    assert bench.all_told(told.PublishResidency)[-1].residency.cached_nbytes <= 5000


def test_a_fetch_that_may_succeed_is_tried_again_with_a_doubling_pause_then_fails() -> None:
    bench = Bench(cached={entry.digest: entry.nbytes for entry in A.blobs[1:]})
    bench.connect()
    bench.assign(A)
    digest = A.blobs[0].digest
    pauses = []
    for _ in range(4):
        failed_at = bench.now
        bench.do(happened.FetchFailed(digest, "store_unreachable", "refused", True))
        assert bench.all_last(told.FetchBlob) == []
        while not bench.all_last(told.FetchBlob):
            wake = bench.machine.wake_at()
            assert wake is not None
            bench.wait(wake - bench.now)
        pauses.append(bench.now - failed_at)
    assert pauses == pytest.approx([0.5, 1.0, 2.0, 4.0])
    bench.do(happened.FetchFailed(digest, "store_unreachable", "refused", True))
    failure = bench.residency(A).failure
    assert failure is not None
    assert (failure.kind, bench.residency(A).status) == ("store_unreachable", "failed")


def test_a_missing_blob_fails_its_partition_at_once_until_it_is_listed_again() -> None:
    bench = Bench(cached={entry.digest: entry.nbytes for entry in A.blobs[1:]})
    bench.connect()
    bench.assign(A)
    bench.do(happened.FetchFailed(A.blobs[0].digest, "blob_missing", "404", False))
    assert bench.residency(A).status == "failed"
    bench.assign(A)
    assert bench.the_last(told.FetchBlob).blob == A.blobs[0]
    assert bench.residency(A).failure is None


def test_rotten_blobs_are_fetched_again_twice_then_the_partition_fails() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A)
    bench.fetch_all()
    rotten = A.blobs[1]

    def refuse() -> None:
        digests = (rotten.digest,)
        bench.do(happened.LoadRefused(bench.number, A.partition, "blob_corrupt", "digest", digests))

    for _ in range(2):
        refuse()
        assert bench.the_last(told.FetchBlob).blob == rotten
        bench.fetched(rotten)
        assert bench.the_last(told.Load).assigned == A
    refuse()
    failure = bench.residency(A).failure
    assert failure is not None
    assert failure.kind == "blob_corrupt"
    assert bench.all_last(told.FetchBlob) == []


def test_a_load_that_is_refused_fails_and_the_next_partition_is_loaded() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A, B)
    bench.fetch_all()
    bench.do(happened.LoadRefused(bench.number, A.partition, "over_budget", "only 3 bytes free"))
    assert bench.residency(A).failure is not None
    assert bench.the_last(told.Load).assigned == B


def test_an_answer_that_nobody_asked_for_raises_with_the_history() -> None:
    bench = Bench()
    bench.serve(A)
    with pytest.raises(IllegalTransition, match="memory slot"):
        bench.ready(A)


def test_evict_removes_only_what_no_partition_uses_and_then_reports() -> None:
    old = blob("old", 50)
    bench = Bench(cached={old.digest: 50, **{b.digest: b.nbytes for b in A.blobs}})
    bench.connect()
    bench.assign(A)
    bench.command(Evict((old.digest, A.blobs[0].digest)))
    assert bench.the_last(told.RemoveBlobs).digests == (old.digest,)
    before = len(bench.reported(Inventory))
    bench.do(happened.BlobsRemoved((old.digest,)))
    assert len(bench.reported(Inventory)) == before + 1
    assert old.digest not in bench.reported(Inventory)[-1].cached
