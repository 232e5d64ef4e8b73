"""Connections, generations, events until acknowledged, telemetry and the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge_agent.machine.machine import AgentMachine
from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.event_log import EventLog
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, Bench, partition, readings, route
from wire.ids import ActivationId, TaskId
from wire.messages.commands import Acknowledge, Ping, Report
from wire.messages.events import (
    FrameDropped,
    FrameReceived,
    Inventory,
    Pong,
    TaskDone,
    TaskFailed,
    TaskStarted,
)
from wire.messages.state import DeviceState, LastWork

A = partition(0, 1)


def own_state(boot: str, status: str = "online") -> DeviceState:
    return DeviceState(status, "cx", boot, "0", 1)  # type: ignore[arg-type]  # a known status


def test_the_first_connection_says_birth_residency_and_inventory() -> None:
    bench = Bench()
    bench.connect(own_state("an-older-boot"))
    state = bench.the_last(told.PublishState).state
    assert (state.status, state.connection, state.boot) == ("online", "c1", "boot1")
    assert state.capabilities == CAPABILITIES
    assert bench.all_last(told.PublishResidency) != []
    assert [type(event) for event in bench.events] == [Inventory]


def test_on_a_reconnect_another_boot_in_our_state_means_we_were_replaced() -> None:
    bench = Bench()
    bench.connect()
    bench.do(happened.Disconnected("gone"))
    bench.connect(own_state("another"))
    assert bench.the_last(told.StayDisconnected).kind == "replaced"
    assert bench.machine.wake_at() is None
    assert bench.arrive(0) == []


def test_a_broker_that_remembers_only_our_predecessor_does_not_replace_us() -> None:
    bench = Bench()
    bench.connect(own_state("predecessor"))
    bench.do(happened.Disconnected("the broker was killed"))
    bench.connect(own_state("predecessor"))
    assert bench.the_last(told.PublishState).state.connection == "c2"


@pytest.mark.parametrize("state", [None, own_state("boot1"), own_state("another", "offline")])
def test_on_a_reconnect_our_own_state_or_a_farewell_changes_nothing(
    state: DeviceState | None,
) -> None:
    bench = Bench()
    bench.connect()
    bench.do(happened.Disconnected("gone"))
    bench.connect(state)
    assert bench.the_last(told.PublishState).state.connection == "c2"


def test_nothing_is_published_while_disconnected_and_sends_wait() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(0)
    bench.do(happened.Disconnected("gone"))
    bench.executed(bench.running)
    spoken = (told.PublishEvents, told.PublishResidency, told.PublishState, told.SendFrame)
    assert [entry for entry in bench.last if isinstance(entry, spoken)] == []
    bench.connect(own_state("boot1"))
    assert bench.the_last(told.SendFrame) == told.SendFrame(ActivationId("r", 0, 2), "next")
    batches = [entry.batch for entry in bench.all_last(told.PublishEvents)]
    assert {batch.connection for batch in batches} == {"c2"}
    inventory = bench.reported(Inventory)[-1]
    assert inventory.outputs == (ActivationId("r", 0, 2),)


def test_what_was_sent_before_a_reconnect_is_not_sent_again_by_itself() -> None:
    bench = Bench()
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(0)
    bench.executed(bench.running)
    bench.do(happened.Disconnected("gone"))
    bench.connect(own_state("boot1"))
    assert bench.all_last(told.SendFrame) == []


def test_events_are_repeated_until_they_are_acknowledged() -> None:
    bench = Bench()
    bench.serve(A)
    bench.wait(5.0)
    repeated = bench.the_last(told.PublishEvents).batch
    assert _seqs([repeated]) == list(range(1, bench.last_seq + 1))
    bench.command(Acknowledge("boot1", 2))
    bench.wait(5.0)
    assert bench.the_last(told.PublishEvents).batch.first_seq == 3
    bench.command(Acknowledge("another", 99))
    bench.command(Acknowledge("boot1", bench.last_seq))
    bench.wait(5.0)
    assert bench.all_last(told.PublishEvents) == []
    assert bench.machine.wake_at() is None


def test_a_reconnect_repeats_from_the_first_that_was_not_acknowledged() -> None:
    bench = Bench(limits=AgentLimits(batch_events=3, gather_s=0.0, gather_busy_s=0.0))
    bench.serve(A)
    for item in range(4):
        bench.arrive(item)
    bench.command(Acknowledge("boot1", 1))
    bench.do(happened.Disconnected("gone"))
    bench.connect()
    batches = [entry.batch for entry in bench.all_last(told.PublishEvents)]
    assert batches[0].first_seq == 2
    assert all(len(batch.events) <= 3 for batch in batches)
    assert _seqs(batches) == list(range(1, bench.last_seq + 1))


def _seqs(batches):  # type: ignore[no-untyped-def]  # every number that is told or gone
    return [
        seq for batch in batches for seq in range(batch.first_seq - batch.gone, batch.last_seq + 1)
    ]


def test_a_new_generation_gets_an_inventory_and_keeps_the_assignment() -> None:
    bench = Bench()
    bench.serve(A)
    before = len(bench.reported(Inventory))
    bench.orchestrator(2)
    assert len(bench.reported(Inventory)) == before + 1
    assert bench.machine.assignment is not None
    assert bench.residency(A).status == "resident"
    bench.orchestrator(2)
    assert len(bench.reported(Inventory)) == before + 1


def test_whatever_tells_first_of_a_new_generation_gets_an_inventory() -> None:
    bench = Bench()
    bench.serve(A)
    before = len(bench.reported(Inventory))
    bench.assign(A, generation=2)
    assert len(bench.reported(Inventory)) == before + 1
    bench.orchestrator(2)
    bench.command(Ping("n"), generation=2)
    assert len(bench.reported(Inventory)) == before + 1
    bench.command(Ping("n"), generation=3)
    assert len(bench.reported(Inventory)) == before + 2


def test_an_agent_that_was_forgotten_says_again_who_it_is_and_what_it_has() -> None:
    bench = Bench()
    bench.serve(A)
    bench.do(happened.StateCleared())
    state = bench.the_last(told.PublishState).state
    assert (state.status, state.connection, state.capabilities) == ("online", "c1", CAPABILITIES)
    assert bench.the_last(told.PublishResidency).residency.partitions[0].status == "resident"
    assert isinstance(bench.events[-1], Inventory)
    bench.do(happened.Disconnected("gone"))
    assert bench.do(happened.StateCleared()) == []


def test_commands_of_an_older_generation_are_dropped_and_counted() -> None:
    bench = Bench()
    bench.serve(A)
    bench.orchestrator(2)
    bench.command(Ping("n"), generation=1)
    assert bench.reported(Pong) == []
    assert bench.machine.counts["stale_commands"] == 1
    bench.command(Ping("n"), generation=2)
    assert bench.reported(Pong)[0] == Pong("n", bench.now)


def test_report_is_answered_with_everything_held() -> None:
    bench = Bench()
    bench.serve(A)
    for item in range(3):
        bench.arrive(item)
    bench.executed(bench.running)
    bench.command(Report())
    inventory = bench.reported(Inventory)[-1]
    assert inventory.outputs == (ActivationId("r", 0, 2),)
    assert inventory.inputs == (ActivationId("r", 1, 0), ActivationId("r", 2, 0))
    assert inventory.running == TaskId("r", 1, 0, 1)
    assert set(inventory.cached) == {blob.digest for blob in A.blobs}
    assert inventory.partitions[0].status == "resident"


def test_at_the_logs_bound_what_only_informs_goes_and_the_gap_is_told() -> None:
    log = EventLog(bound=3, batch=10)
    failed = TaskFailed(TaskId("r", 0, 0, 1), "compute_failed", "why")
    received = FrameReceived(ActivationId("r", 0, 0), "s", 1, 0.0)
    for event in (failed, received, received):
        log.append(event, 0.0)
    log.fresh("b", "c")
    log.append(failed, 0.0)
    log.fresh("b", "c")
    first, second = log.repeated("b", "c")
    assert (first.first_seq, first.gone, len(first.events)) == (1, 0, 1)
    assert (second.first_seq, second.gone, second.events) == (3, 1, (received, failed))
    assert (log.dropped, log.lossy, log.full) == (1, True, False)
    log.append(failed, 0.0)
    assert log.full
    log.fresh("b", "c")
    log.acknowledge(5)
    assert (len(log), log.full) == (0, False)


def test_what_goes_before_it_was_sent_leaves_no_gap() -> None:
    log = EventLog(bound=2, batch=10)
    failed = TaskFailed(TaskId("r", 0, 0, 1), "compute_failed", "why")
    received = FrameReceived(ActivationId("r", 0, 0), "s", 1, 0.0)
    for event in (received, failed, failed):
        log.append(event, 0.0)
    (batch,) = log.fresh("b", "c")
    assert (batch.first_seq, batch.gone, batch.events) == (1, 0, (failed, failed))
    assert (log.dropped, log.lossy, log.full) == (1, True, True)


def test_a_batch_that_nothing_unacknowledged_precedes_says_that_all_before_is_gone() -> None:
    log = EventLog(bound=10, batch=2)
    for _ in range(5):
        log.append(FrameReceived(ActivationId("r", 0, 0), "s", 1, 0.0), 0.0)
    log.fresh("b", "c")
    log.acknowledge(2)
    assert [batch.gone for batch in log.repeated("b", "c")] == [2, 0]
    log.append(FrameReceived(ActivationId("r", 1, 0), "s", 1, 0.0), 0.0)
    assert [batch.gone for batch in log.fresh("b", "c")] == [0]


def test_no_task_starts_while_the_log_is_full_of_what_may_not_go() -> None:
    bench = Bench(limits=AgentLimits(log_events=2, gather_s=0.0, gather_busy_s=0.0))
    bench.serve(A)
    for item in range(3):
        bench.arrive(item)
    bench.failed(bench.running)
    bench.command(Acknowledge("boot1", 0))
    assert bench.all_last(told.Execute) == []
    bench.command(Acknowledge("boot1", bench.last_seq))
    assert bench.the_last(told.Execute).task.item == 1


def test_telemetry_goes_out_every_ten_seconds_or_when_a_threshold_is_crossed() -> None:
    bench = Bench()
    bench.connect()

    def published(seconds: float, **values: float | bool | None) -> bool:
        bench.now += seconds
        bench.do(happened.TelemetryRead(readings(**values)))
        return bool(bench.all_last(told.PublishTelemetry))

    assert published(0, battery_percent=80.0)
    assert not published(2, battery_percent=78.0)
    assert published(2, battery_percent=75.0)
    assert not published(0.5, battery_percent=60.0)
    bench.wait(0.5)
    assert bench.all_last(told.PublishTelemetry)
    assert not published(9.5, battery_percent=60.0)
    assert published(0.5, battery_percent=60.0)


def test_telemetry_follows_the_process_as_it_grows_and_shrinks() -> None:
    bench = Bench()
    bench.connect()
    before = readings()
    bench.do(happened.TelemetryRead(before))
    bench.now += 2
    grown = replace(before, rss_nbytes=before.rss_nbytes + (30 << 20))
    bench.do(happened.TelemetryRead(grown))
    assert bench.the_last(told.PublishTelemetry).telemetry.rss_nbytes == grown.rss_nbytes


def test_telemetry_tells_the_queue_and_follows_its_filling() -> None:
    bench = Bench()
    bench.serve(A)
    bench.do(happened.TelemetryRead(readings()))
    bench.now += 2
    bench.arrive(0)
    telemetry = bench.the_last(told.PublishTelemetry).telemetry
    assert (telemetry.queue_depth, telemetry.held_nbytes, telemetry.connection) == (1, 500, "c1")


def test_a_stopping_agent_drains_then_says_farewell() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1)
    bench.do(happened.StopAsked("shutdown"))
    assert bench.the_last(told.PublishState).state.status == "draining"
    assert bench.all_last(told.Stop) == []
    bench.executed(bench.running)
    assert bench.all_last(told.Execute) == []
    assert bench.the_last(told.PublishState).state.status == "offline"
    assert bench.last[-1] == told.Stop("shutdown")
    assert bench.machine.wake_at() is None


def test_a_stop_waits_ten_seconds_for_a_task_and_no_longer() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.do(happened.StopAsked("shutdown"))
    wakes = []
    while not bench.all_last(told.Stop):
        wake = bench.machine.wake_at()
        assert wake is not None
        wakes.append(wake)
        bench.wait(wake - bench.now)
    assert bench.now == pytest.approx(110.0)


def test_who_holds_frames_and_hears_nothing_says_again_what_it_holds() -> None:
    bench = Bench(limits=AgentLimits(restate_s=60.0, gather_s=0.0, gather_busy_s=0.0))
    bench.serve(A, routes=(route(2, "next"),))
    bench.arrive(0)
    bench.executed(bench.running)
    bench.command(Acknowledge("boot1", bench.last_seq))
    before = len(bench.reported(Inventory))
    assert bench.machine.wake_at() == pytest.approx(bench.now + 60.0)
    bench.wait(60.0)
    assert len(bench.reported(Inventory)) == before + 1
    assert bench.reported(Inventory)[-1].outputs == (ActivationId("r", 0, 2),)


def test_events_that_only_inform_gather_and_pressing_ones_take_them_along() -> None:
    bench = Bench(limits=AgentLimits(gather_s=0.02, gather_busy_s=0.1, told_starts=0))
    bench.serve(A)
    bench.wait(1.0)
    bench.arrive(0)
    assert bench.all_last(told.PublishEvents) == []
    assert bench.machine.wake_at() == pytest.approx(bench.now + 0.1)
    bench.do(happened.FrameLost(ActivationId("r", 9, 0), "too_large", "why"))
    batch = bench.the_last(told.PublishEvents).batch
    assert [type(event) for event in batch.events][-2:] == [TaskStarted, FrameDropped]


def test_the_first_starts_after_a_load_are_told_at_once() -> None:
    """Who took over from a device that died may die of the same, and then what waits is lost."""
    bench = Bench(limits=AgentLimits(gather_s=0.02, gather_busy_s=0.1, told_starts=2))
    bench.serve(A, routes=(route(2, "next"),))
    bench.wait(1.0)
    told_at_once = []
    for item in range(3):
        bench.arrive(item)
        batches = [each.batch for each in bench.all_last(told.PublishEvents)]
        told_at_once.append(
            any(isinstance(event, TaskStarted) for batch in batches for event in batch.events)
        )
        bench.executed(bench.running)
        bench.wait(0.2)
    assert told_at_once == [True, True, False]


def test_what_the_boot_before_was_at_is_told_with_every_birth() -> None:
    last_work = LastWork("boot0", task=TaskId("r", 7, 0, 1))
    machine = AgentMachine("phone", CAPABILITIES)
    machine.handle(happened.Started("boot1", {}, last_work), 0.0)
    for number in range(2):
        told_now = machine.handle(happened.Connected(f"c{number}", number > 0, None), 1.0 + number)
        births = [each.state for each in told_now if isinstance(each, told.PublishState)]
        assert [each.last_work for each in births] == [last_work]
        machine.handle(happened.Disconnected("the link failed"), 1.5 + number)


def test_what_a_task_made_is_on_its_way_before_its_events() -> None:
    bench = Bench(limits=AgentLimits(gather_s=0.02, gather_busy_s=0.1, told_starts=0))
    bench.serve(A, routes=(route(2, "next"),))
    bench.wait(1.0)
    bench.arrive(0)
    bench.now += 0.03
    bench.executed(bench.running)
    assert bench.all_last(told.SendFrame) != []
    assert bench.all_last(told.PublishEvents) == []
    bench.wait(0.02)
    batch = bench.the_last(told.PublishEvents).batch
    assert [type(event) for event in batch.events] == [TaskDone]


def test_the_end_of_a_task_says_what_was_not_sent_of_its_beginning() -> None:
    bench = Bench(limits=AgentLimits(gather_s=0.02, gather_busy_s=0.1, told_starts=0))
    bench.serve(A, routes=(route(2, "next"),))
    bench.wait(1.0)
    bench.arrive(0)
    bench.arrive(1)
    bench.arrive(0, attempt=1)  # while its first attempt runs: nothing says this by itself
    bench.executed(bench.running)
    bench.wait(0.1)
    batch = bench.the_last(told.PublishEvents).batch
    said = [(type(each), getattr(each, "activation", None)) for each in batch.events]
    assert said == [
        (FrameReceived, ActivationId("r", 1, 0)),
        (FrameReceived, ActivationId("r", 0, 0)),
        (TaskDone, None),
        (TaskStarted, None),
    ]
    assert bench.reported(TaskDone)[0].started_s == bench.now - 0.1


def test_what_a_barrier_waits_for_is_told_at_once() -> None:
    bench = Bench(limits=AgentLimits(gather_s=0.02, gather_busy_s=0.1, told_starts=0))
    bench.serve(A)
    bench.wait(1.0)
    bench.arrive(0)
    bench.executed(bench.running)
    (done,) = bench.the_last(told.PublishEvents).batch.events
    assert isinstance(done, TaskDone)
    assert done.parked


def test_a_long_task_is_told_of_while_it_runs() -> None:
    bench = Bench(limits=AgentLimits(gather_s=0.02, gather_busy_s=0.1, told_starts=0))
    bench.serve(A)
    bench.wait(1.0)
    bench.arrive(0)
    bench.wait(0.1)
    batch = bench.the_last(told.PublishEvents).batch
    assert [type(event) for event in batch.events] == [FrameReceived, TaskStarted]
