"""A device filled with frames that nobody reserved room for: what gives way, and what never."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, Bench, partition, route
from wire.ids import ActivationId
from wire.messages.commands import Cancel, Release
from wire.messages.events import FrameDropped, TaskDone

A, B = partition(0, 1, emits_nbytes=400), partition(2, 3, emits_nbytes=400)
LIMITS = AgentLimits(gather_s=0.0, frame_overhead_nbytes=100)


def bench_of(hold_nbytes: int) -> Bench:
    """Each task takes a frame of 500 bytes and makes one of up to 500."""
    return Bench(replace(CAPABILITIES, hold_nbytes=hold_nbytes), LIMITS)


def held(bench: Bench) -> int:
    return bench.machine._agent.held.nbytes


def dropped(bench: Bench) -> list[tuple[int, int, str]]:
    drops = bench.reported(FrameDropped)
    return [(drop.activation.item, drop.activation.cut, drop.kind) for drop in drops]


def test_early_frames_give_way_to_the_output_of_a_task_before_it_starts() -> None:
    bench = bench_of(2000)
    bench.connect()
    bench.assign(A, routes=(route(2, "next"),))
    bench.fetch_all()
    bench.arrive(0)
    for item in (1, 2, 3):
        bench.arrive(item, 4)
    assert (held(bench), dropped(bench)) == (2000, [])
    bench.ready(A)
    assert bench.the_last(told.Execute).task.item == 0
    assert dropped(bench) == [(3, 4, "early")]
    bench.executed(bench.running, nbytes=500)
    assert held(bench) == 1500
    assert len(bench.reported(TaskDone)) == 1


def test_what_the_running_task_will_make_is_no_room_for_arrivals() -> None:
    bench = bench_of(1500)
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1)
    bench.arrive(2)
    bench.arrive(3, 4)
    assert dropped(bench) == [(2, 0, "too_large"), (3, 4, "too_large")]
    bench.executed(bench.running, nbytes=500)
    assert held(bench) <= 1500


def test_the_input_of_a_cancelled_task_is_no_room_until_its_task_ends() -> None:
    bench = bench_of(1500)
    bench.serve(A)
    bench.arrive(0)
    task = bench.running
    bench.command(Cancel("r", (0,)))
    bench.arrive(1, 4)
    bench.arrive(2, 4)
    assert (held(bench), dropped(bench)) == (500, [(2, 4, "too_large")])
    bench.executed(task, nbytes=500)
    bench.arrive(3, 4)
    bench.arrive(4, 4)
    assert held(bench) == 1500


def test_a_task_waits_a_while_for_room_that_a_release_gives_back() -> None:
    bench = bench_of(1500)
    bench.serve(A)
    bench.arrive(0)
    bench.executed(bench.running, nbytes=500)
    bench.arrive(1)
    bench.executed(bench.running, nbytes=500)
    bench.arrive(2)
    assert bench.all_last(told.Execute) == []
    assert bench.machine.wake_at() == pytest.approx(bench.now + LIMITS.room_s)
    bench.command(Release("r", 2, (0,)))
    assert bench.the_last(told.Execute).task.item == 2
    assert dropped(bench) == []


def test_without_a_release_its_input_goes_with_an_event_and_no_output_does() -> None:
    bench = bench_of(1500)
    bench.serve(A)
    for item in (0, 1):
        bench.arrive(item)
        bench.executed(bench.running, nbytes=500)
    bench.arrive(2)
    bench.wait(LIMITS.room_s)
    assert dropped(bench) == [(2, 0, "too_large")]
    assert bench.all_told(told.ForgetFrame)[-1] == told.ForgetFrame(
        ActivationId("r", 2, 0), "input", "orchestrator"
    )
    assert len(bench.machine._agent.held.outputs) == 2
    assert bench.machine.wake_at() != bench.now


def test_the_newest_waiting_inputs_give_way_to_the_first_one() -> None:
    bench = bench_of(1500)
    bench.connect()
    bench.assign(A)
    bench.fetch_all()
    for item in (0, 1, 2):
        bench.arrive(item)
    bench.ready(A)
    assert bench.all_last(told.Execute) == []
    bench.wait(LIMITS.room_s)
    assert dropped(bench) == [(2, 0, "too_large")]
    assert bench.the_last(told.Execute).task.item == 0


def test_an_output_computed_again_needs_no_room_of_its_own() -> None:
    bench = bench_of(1000)
    bench.serve(A)
    bench.arrive(0)
    bench.executed(bench.running, nbytes=500)
    bench.arrive(0, attempt=1)
    assert bench.the_last(told.Execute).task.attempt == 1
    bench.executed(bench.running, nbytes=500)
    assert held(bench) == 500


def test_a_frame_that_found_the_spool_full_makes_early_ones_go_and_asks_for_room() -> None:
    bench = bench_of(5000)
    bench.serve(A)
    bench.arrive(1, 4)
    bench.arrive(2, 4)
    bench.do(happened.FrameLost(ActivationId("r", 0, 0), happened.NO_ROOM, "no room"))
    assert dropped(bench) == [(2, 4, "early"), (1, 4, "early"), (0, 0, "too_large")]
    assert held(bench) == 0


def test_a_repeat_that_is_larger_than_what_is_left_goes_with_an_event() -> None:
    bench = bench_of(1500)
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1, nbytes=400)
    bench.arrive(1, attempt=1, nbytes=600)
    assert dropped(bench) == [(1, 0, "too_large")]
    assert held(bench) == 500


@pytest.mark.parametrize(
    ("changes", "kind"), [({"model": "f" * 64}, "malformed"), ({"raw_nbytes": 10_001}, "too_large")]
)
def test_a_repeat_that_cannot_be_used_took_the_place_of_what_could(
    changes: dict[str, object], kind: str
) -> None:
    bench = bench_of(5000)
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1)
    bench.arrive(1, **changes)  # type: ignore[arg-type]  # passed on as given
    assert dropped(bench) == [(1, 0, kind)]
    bench.executed(bench.running)
    assert bench.all_last(told.Execute) == []
