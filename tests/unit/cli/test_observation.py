from dataclasses import replace

from crowdpipe.watching.observation import Observation
from wire.ids import ActivationId, PartitionId, TaskId
from wire.messages.events import (
    DeviceEvent,
    EventBatch,
    FetchStarted,
    FrameDropped,
    FrameReceived,
    PartitionLoaded,
    TaskDone,
    TaskFailed,
    TaskStarted,
)
from wire.messages.progress import RunProgress
from wire.messages.telemetry import Telemetry
from wire.record import encode
from wire.topics import Topics

TOPICS = Topics()
PARTITION = PartitionId("a" * 64, False, 0, 3)
TASK = TaskId("run", 7, 0, 3)


def batch(*events: DeviceEvent, boot: str = "b1", first: int = 1) -> bytes:
    return encode(EventBatch(boot, "c", first, events))


def see_events(seen: Observation, payload: bytes, now: float) -> None:
    seen.see(TOPICS.device("phone-1", "events"), payload, now)


def done(at_s: float, sent: int = 50) -> TaskDone:
    return TaskDone(TASK, at_s, 0.1, 0.0, 0.5, 0.0, 100, sent, 60)


def test_a_repeated_batch_counts_once() -> None:
    seen = Observation()
    payload = batch(FrameReceived(ActivationId("run", 7, 0), "orchestrator", 100, 1.0), done(2.0))
    see_events(seen, payload, 10.0)
    see_events(seen, payload, 11.0)
    device = seen.devices["phone-1"]
    assert (device.tasks, device.received_nbytes, device.sent_nbytes) == (1, 100, 50)


def test_what_came_in_counts_whether_it_was_told_by_itself_or_with_the_end() -> None:
    seen = Observation()
    received = FrameReceived(ActivationId("run", 7, 0), "orchestrator", 100, 1.0)
    see_events(seen, batch(received, done(2.0), done(3.0)), 10.0)
    assert seen.devices["phone-1"].received_nbytes == 200


def test_what_came_and_failed_is_no_arrival_of_what_comes_again() -> None:
    seen = Observation()
    received = FrameReceived(ActivationId("run", 7, 0), "orchestrator", 100, 1.0)
    failed = TaskFailed(TASK, "compute_failed", "why")
    dropped = FrameDropped(ActivationId("run", 7, 0), "too_large", "why")
    see_events(seen, batch(received, failed, done(2.0), received, dropped, done(3.0)), 10.0)
    assert seen.devices["phone-1"].received_nbytes == 400


def test_a_start_that_was_not_told_by_itself_is_in_the_end() -> None:
    seen = Observation()
    see_events(seen, batch(replace(done(2.0), started_s=1.2)), 2.0)
    (span,) = seen.spans()
    assert (span.start_s, span.end_s) == (1.2, 2.0)


def test_another_boot_numbers_its_events_anew() -> None:
    seen = Observation()
    see_events(seen, batch(done(2.0)), 10.0)
    see_events(seen, batch(done(2.0), boot="b2"), 20.0)
    assert seen.devices["phone-1"].tasks == 2


def test_spans_are_on_the_watchers_clock_shifted_by_the_quickest_message() -> None:
    seen = Observation()
    see_events(seen, batch(TaskStarted(TASK, 1.0)), 101.5)
    see_events(seen, batch(done(2.0), first=2), 102.1)
    (span,) = seen.spans()
    assert (round(span.start_s, 6), round(span.end_s, 6)) == (101.1, 102.1)
    assert (span.run, span.item, span.first, span.last) == ("run", 7, 0, 3)


def test_a_restarted_device_does_not_move_what_it_did_before() -> None:
    seen = Observation()
    see_events(seen, batch(TaskStarted(TASK, 1.0), done(2.0)), 102.0)
    see_events(seen, batch(TaskStarted(TASK, 5.0), done(6.0), boot="b2"), 206.0)
    assert [round(span.end_s) for span in seen.spans()] == [102, 206]


def test_a_fetch_is_drawn_where_it_began_and_not_right_before_the_load() -> None:
    seen = Observation()
    loaded = PartitionLoaded(PARTITION, 3, False, 9.0, 1.0, 1000, 0.5, 60, 50)
    see_events(seen, batch(FetchStarted(PARTITION, 2.0, 1000), loaded), 9.0)
    spans = {span.kind: span for span in seen.spans()}
    assert (spans["fetch"].start_s, spans["fetch"].end_s) == (2.0, 3.0)
    assert (spans["load"].start_s, spans["load"].end_s) == (8.5, 9.0)
    assert seen.devices["phone-1"].loads[0].tier == 3


def test_the_peak_is_the_highest_of_all_readings() -> None:
    seen = Observation()
    for peak in (80, 90, 70):
        telemetry = Telemetry("c", 1.0, 60, peak, 50, 0, 0)
        seen.see(TOPICS.device("phone-1", "telemetry"), encode(telemetry), 1.0)
    assert seen.devices["phone-1"].rss_peak_nbytes == 90
    assert seen.devices["phone-1"].rss_floor_nbytes == 50


def test_runs_are_followed_by_their_id() -> None:
    seen = Observation()
    progress = RunProgress("r1", "m", "running", False, True, "auto", 3, 3, 2, 1, 0, 0.5)
    seen.see(TOPICS.run("r1"), encode(progress), 1.0)
    assert seen.runs["r1"].done == 1


def test_a_broken_message_blinds_the_watcher_to_nothing_else() -> None:
    seen = Observation()
    see_events(seen, b"{not json", 1.0)
    see_events(seen, batch(done(2.0)), 2.0)
    assert len(seen.unreadable) == 1
    assert "phone-1/events" in seen.unreadable[0]
    assert seen.devices["phone-1"].tasks == 1


def test_a_forgotten_topic_is_no_message() -> None:
    seen = Observation()
    seen.see(TOPICS.device("phone-1", "state"), b"", 1.0)
    assert not seen.devices
    assert not seen.unreadable
