"""From events to figures: stages, whole items, hops, bounds and plans, on made-up events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bound import Bound, bound_of
from benchmarks.desk import Span
from benchmarks.happenings import Happenings, Stage, idle_share, stages, whole_items
from benchmarks.relay import BURST_S, Direction
from benchmarks.subjects.energy import mah
from benchmarks.subjects.hop import hops
from benchmarks.subjects.loading import nearest_span, overlapping
from benchmarks.subjects.memory import even_spans
from benchmarks.subjects.planner import Stages
from benchmarks.tally import kind_of
from orchestrator.planner.offers import Offer
from orchestrator.planner.stages import BATCH
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.errors import OperatorError, TimedOut
from wire.ids import TaskId
from wire.messages.events import EventBatch, TaskDone, TaskStarted
from wire.record import encode
from wire.topics import Topics

times = st.lists(st.floats(1e-3, 10.0), min_size=1, max_size=6).map(tuple)


def task(item: int, first: int, last: int) -> TaskId:
    return TaskId("run", item, first, last)


def done(
    which: TaskId, compute_s: float, sent: int = 100, raw: int = 200, received: int = 100
) -> TaskDone:
    return TaskDone(which, 0.0, 0.0, 0.25, compute_s, 0.5, received, sent, raw)


def stage(device: str, which: TaskId, started_s: float, compute_s: float, **sizes: int) -> Stage:
    return Stage(device, which, started_s, done(which, compute_s, **sizes))


def test_a_stage_needs_its_beginning_and_its_end():
    begun, ended = TaskStarted(task(0, 0, 1), 1.0), done(task(0, 0, 1), 2.0)
    assert stages([("a", begun)]) == []
    assert stages([("a", ended)]) == []
    assert stages([("a", begun), ("b", ended)]) == []
    (found,) = stages([("a", begun), ("a", ended)])
    assert (found.compute_from_s, found.compute_until_s) == (1.25, 3.25)


def test_a_start_that_was_not_told_by_itself_is_in_the_end():
    ended = replace(done(task(0, 0, 1), 2.0), started_s=7.0)
    (found,) = stages([("a", ended)])
    assert found.started_s == 7.0
    (found,) = stages([("a", TaskStarted(task(0, 0, 1), 1.0)), ("a", ended)])
    assert found.started_s == 7.0


def busy(device: str, started_s: float, ended_s: float) -> Stage:
    which = task(0, 0, 1)
    return Stage(device, which, started_s, replace(done(which, 0.0), at_s=ended_s))


def test_idle_is_only_when_no_device_has_a_task():
    assert idle_share([busy("a", 1.0, 5.0), busy("b", 2.0, 3.0)]) == 0.0
    gap = [busy("b", 8.0, 11.0), busy("a", 1.0, 5.0), busy("b", 4.0, 6.0)]
    assert idle_share(gap) == pytest.approx(2.0 / 10.0)


def test_each_message_is_counted_as_what_it_is_to_the_orchestrator():
    topics = Topics()
    assert kind_of(topics.device("phone", "events"), topics) == "events"
    assert kind_of(topics.data("orchestrator", "clients/ann/s1"), topics) == "frames in"
    assert kind_of(topics.data("phone", "orchestrator"), topics) == "frames out"


def test_an_item_is_whole_when_its_stages_cover_the_model_without_a_gap():
    def events(*ranges: tuple[int, int]):
        for first, last in ranges:
            yield "a", TaskStarted(task(0, first, last), float(first))
            yield "a", done(task(0, first, last), 1.0)

    assert len(whole_items(list(events((0, 1), (2, 4))), 5)) == 1
    assert whole_items(list(events((0, 1), (3, 4))), 5) == []
    assert whole_items(list(events((0, 1), (2, 3))), 5) == []
    assert whole_items(list(events((2, 4))), 5) == []


def test_a_hop_lasts_from_computed_to_computing_on_the_next_device():
    before = stage("a", task(0, 0, 1), started_s=1.0, compute_s=2.0, sent=87, raw=100)
    after = stage("b", task(0, 2, 3), started_s=4.0, compute_s=1.0)
    (hop,) = hops([[before, after]])
    assert hop.overhead_s == pytest.approx(4.25 - 3.25)
    assert hop.way_s == pytest.approx(1.0 - 0.5 - 0.25)
    assert (hop.nbytes, hop.raw_nbytes) == (87, 100)


def test_no_hop_within_a_device_nor_over_a_gap():
    first = stage("a", task(0, 0, 1), 1.0, 1.0)
    assert list(hops([[first, stage("a", task(0, 2, 3), 3.0, 1.0)]])) == []
    assert list(hops([[first, stage("b", task(0, 3, 3), 3.0, 1.0)]])) == []


@given(times, st.integers(1, 50))
def test_streaming_is_never_slower_than_a_barrier_and_saves_nothing_for_one_item(
    stage_s: tuple[float, ...], items: int
):
    bound = Bound(stage_s, items)
    assert bound.streaming_s <= bound.barrier_s * (1 + 1e-9)
    assert 0 <= bound.saving + 1e-9 < 1 + 1e-9
    if items == 1 or len(stage_s) == 1:
        assert bound.saving == pytest.approx(0.0, abs=1e-9)


def test_even_stages_save_what_the_formula_says():
    assert Bound((1.0,) * 5, 20).saving == pytest.approx(1 - 24 / 100)


def test_a_stage_takes_the_larger_of_compute_and_transfer():
    slow_link = stage("a", task(0, 0, 0), 0.0, 1.0, sent=1000, received=10)
    slow_core = stage("b", task(0, 1, 1), 2.0, 5.0, sent=10, received=1000)
    assert bound_of([[slow_link, slow_core]], 100.0).stage_s == (10.0, 10.0)
    assert bound_of([[slow_link, slow_core]], 1e6).stage_s == (1.0, 5.0)


def test_a_bound_over_a_changed_plan_is_refused():
    one, two = stage("a", task(0, 0, 1), 0.0, 1.0), stage("b", task(0, 2, 2), 0.0, 1.0)
    with pytest.raises(OperatorError, match="plan changed"):
        bound_of([[one], [one, two]], 1.0)


def test_an_event_that_is_told_twice_happened_once():
    happenings = Happenings()
    topic = Topics().device("phone", "events")
    batch = EventBatch("boot", "c1", 1, (TaskStarted(task(0, 0, 1), 1.0),))
    for _ in range(2):
        happenings.hear(topic, encode(batch))
    happenings.hear(topic, b"not JSON")
    happenings.hear(Topics().device("phone", "telemetry"), encode(batch))
    assert happenings.since() == [("phone", TaskStarted(task(0, 0, 1), 1.0))]
    mark = happenings.mark()
    assert happenings.since(mark) == []
    with pytest.raises(TimedOut, match="did not come"):
        happenings.wait(mark, bool, 0.01)


@given(st.lists(st.tuples(st.integers(1, 10_000), st.floats(0, 3)), min_size=1, max_size=30))
def test_a_link_never_moves_more_than_its_rate_and_a_burst(chunks: list[tuple[int, float]]):
    rate, now, sent = 1000.0, 0.0, 0
    link = Direction(rate)
    for nbytes, pause_s in chunks:
        now += pause_s
        sent += nbytes
        through = link.through_at(nbytes, now)
        assert through >= now
        assert sent <= rate * (through + BURST_S) + 1e-6
    assert link.nbytes == sent


def test_a_link_without_a_rate_holds_nothing_up():
    assert Direction(0.0).through_at(1 << 30, 5.0) == 5.0


def test_brute_force_finds_the_plan_that_leaves_a_slow_device_out():
    manifest = tiny_manifest(weights=(MB,) * 3, costs=[3e9, 2e9, 1e9], cuts=[0] * 4)
    fast, slow = (Offer(1 << 40, 1 << 40, 1 << 40, 99, rate, 1e9, "d") for rate in (1e9, 1e8))
    more = BATCH - 1
    assert Stages(manifest, [fast, fast]).best_s() == pytest.approx(6 + more * 3)
    assert Stages(manifest, [fast, slow]).best_s() == pytest.approx(6 + more * 6)
    both = Stages(manifest, [fast, slow]).batch_s([(0, 1), (2, 2)], [0, 1])
    assert both == pytest.approx(15 + more * 10)


def test_even_spans_cover_the_model_in_order():
    spans = even_spans(tiny_manifest(weights=(MB,) * 12), 5)
    covered = [index for span in spans for index in range(span.first, span.last + 1)]
    assert (len(spans), covered) == (5, list(range(12)))


def test_the_span_that_comes_nearest_to_a_size_is_taken_from_the_end():
    manifest = tiny_manifest(weights=[MB * size for size in (94, 30, 30, 30, 2)])
    span = nearest_span(manifest, 90e6)
    assert (span.first, span.last) == (1, 3)


@pytest.mark.parametrize(
    ("span", "other"),
    [((1, 3), (0, 2)), ((0, 3), (0, 4)), ((0, 4), (0, 4)), ((4, 4), (3, 4))],
)
def test_another_plan_has_some_of_the_same_segments(span, other):
    found = overlapping(Span(*span), 5)
    assert (found.first, found.last) == other


def test_charge_follows_from_processor_time_power_and_voltage():
    assert mah(3600.0) == pytest.approx(1000 * 1.5 / 3.85)
