"""Frames that come too early, too large or too many: held within bounds, and dropped aloud."""

from __future__ import annotations

from dataclasses import replace

from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.limits import AgentLimits
from tests.support.agent_bench import CAPABILITIES, Bench, head, partition
from wire.ids import ActivationId
from wire.messages.assignment import Limits
from wire.messages.commands import Cancel
from wire.messages.events import (
    FrameDropped,
    FrameReceived,
)

A, B, C = partition(0, 1), partition(2, 3), partition(4, 5)
EXACT = AgentLimits(gather_s=0.0, frame_overhead_nbytes=0)  # frames are no larger than their bound


def name(item: int, cut: int, run: str = "r") -> ActivationId:
    return ActivationId(run, item, cut)


def test_a_frame_larger_than_the_partition_takes_is_dropped_with_an_event() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0, raw_nbytes=10_001)
    assert bench.reported(FrameDropped)[0].kind == "too_large"
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(name(0, 0), "input", "orchestrator")


def test_a_frame_that_nothing_takes_is_held_early_then_dropped_with_an_event() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(A, limits=Limits(early_s=5.0))
    bench.arrive(0, 2)
    assert bench.reported(FrameReceived) == []
    assert bench.machine.wake_at() is not None
    bench.wait(5.0)
    assert bench.reported(FrameDropped)[0].kind == "early"
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(name(0, 2), "input", "orchestrator")


def test_a_frame_of_another_mode_or_model_is_not_taken() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0, exact=True)
    bench.arrive(1, model="f" * 64)
    assert bench.all_told(told.Execute) == []


def test_an_early_frame_is_taken_by_the_assignment_that_it_came_before() -> None:
    bench = Bench()
    bench.connect()
    bench.arrive(0, sender="first")
    bench.assign(A)
    received = bench.reported(FrameReceived)[0]
    assert (received.activation, received.sender) == (name(0, 0), "first")
    bench.fetch_all()
    bench.ready(A)
    assert bench.the_last(told.Execute).task.item == 0


def test_early_frames_have_a_bound_in_bytes() -> None:
    bench = Bench()
    bench.connect()
    bench.assign(limits=Limits(early_nbytes=1000))
    bench.arrive(0, nbytes=600)
    bench.arrive(1, nbytes=600)
    assert [drop.activation for drop in bench.reported(FrameDropped)] == [name(1, 0)]


def test_inputs_of_an_unlisted_partition_are_early_again() -> None:
    bench = Bench()
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1)
    bench.executed(bench.running)
    bench.executed(bench.running)
    bench.arrive(2)
    bench.arrive(3)
    bench.assign(limits=Limits(early_s=3.0))
    bench.executed(bench.running)
    assert bench.all_last(told.Execute) == []
    bench.wait(3.0)
    assert [drop.activation for drop in bench.reported(FrameDropped)] == [name(3, 0)]


def test_what_is_held_has_a_bound_and_the_newest_arrival_goes() -> None:
    bench = Bench(replace(CAPABILITIES, hold_nbytes=1000))
    bench.serve(A)
    bench.arrive(0)
    bench.arrive(1)
    bench.arrive(2)
    drop = bench.reported(FrameDropped)[0]
    assert (drop.activation, drop.kind) == (name(2, 0), "too_large")


def test_early_frames_give_way_to_what_a_partition_takes() -> None:
    bench = Bench(replace(CAPABILITIES, hold_nbytes=1900), EXACT)
    bench.serve(replace(A, emits_nbytes=400))
    bench.arrive(0, 2)
    bench.arrive(1, 2)
    bench.arrive(2)
    bench.arrive(3)
    assert [drop.activation for drop in bench.reported(FrameDropped)] == [name(1, 2)]
    bench.arrive(4, 2)
    assert bench.reported(FrameDropped)[-1].kind == "too_large"
    assert bench.reported(FrameReceived)[-1].activation == name(3, 0)


def test_a_lost_frame_is_reported_unless_it_is_held() -> None:
    bench = Bench()
    bench.serve(A)
    bench.do(happened.FrameLost(name(5, 0), "timed_out", "2 of 3 parts"))
    assert bench.reported(FrameDropped)[0].kind == "timed_out"
    bench.arrive(5)
    bench.do(happened.FrameLost(name(5, 0), "timed_out", "2 of 3 parts"))
    assert len(bench.reported(FrameDropped)) == 1


def test_what_came_anew_is_not_forgotten_with_what_it_lies_in_place_of() -> None:
    """One copy of a frame is refused while the next, which lies where it lay, has come already."""
    bench = Bench()
    bench.serve(A)
    bench.arrive(9)  # what runs
    bench.command(Cancel("r", (0,)))
    frame = head(0)
    bench.do(happened.FrameArrived(frame, "peer", 7))
    bench.assign(A, generation=2)
    bench.do(happened.FrameArrived(frame, "peer", 8))
    forgotten = [each for each in bench.told if isinstance(each, told.ForgetFrame)]
    assert forgotten == [told.ForgetFrame(frame.activation, "input", "peer", 7)]
    assert frame.activation in bench.machine._agent.held.inputs
