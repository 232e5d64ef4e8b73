"""Frames are taken from those alone who have or had a place before their cut."""

from __future__ import annotations

from edge_agent.machine.records import events as happened
from edge_agent.machine.records import instructions as told
from edge_agent.machine.records.senders import MOST, Senders
from edge_agent.machine.records.stranger_reports import AT_ONCE, EVERY_S
from tests.support.agent_bench import MODEL, Bench, partition, route
from wire.ids import ActivationId
from wire.messages.assignment import Limits
from wire.messages.commands import Report, Send
from wire.messages.events import FrameDropped, FrameReceived, Inventory

AT = ActivationId("r", 0, 2)
SERVED = partition(2, 3, senders=("before",))
LIMITS = Limits(early_s=5.0)


def serving(*senders: str) -> Bench:
    bench = Bench()
    bench.connect()
    bench.assign(partition(2, 3, senders=senders or ("before",)), limits=LIMITS)
    bench.fetch_all()
    bench.ready(SERVED)
    return bench


def busy() -> Bench:
    """It runs another item's task."""
    bench = serving("before", "beside")
    bench.arrive(9, 2, sender="before")
    return bench


def executed(bench: Bench) -> list[tuple[int, str]]:
    groups = [each.group for each in bench.all_told(told.Execute)]
    return [(each.task.item, each.sender) for group in groups for each in group]


def test_a_strangers_frame_is_never_computed_and_dropped_in_its_name() -> None:
    bench = serving()
    bench.arrive(0, 2, sender="liar")
    assert (bench.reported(FrameReceived), bench.all_told(told.Execute)) == ([], [])
    bench.wait(5.0)
    (dropped,) = bench.reported(FrameDropped)
    assert (dropped.activation, dropped.kind, dropped.sender) == (AT, "early", "liar")
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(AT, "input", "liar")


def test_a_strangers_frame_gives_way_to_one_that_counts() -> None:
    bench = serving()
    bench.arrive(0, 2, sender="liar")
    bench.arrive(0, 2, sender="before")
    assert bench.all_told(told.ForgetFrame) == [told.ForgetFrame(AT, "input", "liar")]
    assert executed(bench) == [(0, "before")]
    assert bench.reported(FrameDropped) == []


def test_a_strangers_frame_changes_nothing_of_one_that_waits_or_runs() -> None:
    bench = busy()
    bench.arrive(0, 2, sender="before")
    before = len(bench.events)
    for item in (0, 9):
        bench.arrive(item, 2, sender="liar", attempt=7, nbytes=3, raw_nbytes=20_000)
    assert len(bench.events) == before
    assert [each.sender for each in bench.all_told(told.ForgetFrame)] == ["liar", "liar"]
    bench.executed(bench.running)
    assert executed(bench) == [(9, "before"), (0, "before")]
    assert bench.running.attempt == 0


def test_of_two_frames_that_count_the_first_stays_under_the_higher_attempt() -> None:
    bench = busy()
    bench.arrive(0, 2, sender="before")
    bench.arrive(0, 2, sender="beside", attempt=1)
    received = [(each.activation.item, each.sender) for each in bench.reported(FrameReceived)]
    assert received == [(9, "before"), (0, "before"), (0, "beside")]
    assert bench.the_last(told.ForgetFrame) == told.ForgetFrame(AT, "input", "beside")
    bench.executed(bench.running)
    assert executed(bench) == [(9, "before"), (0, "before")]
    assert bench.running.attempt == 1


def test_what_runs_is_computed_again_under_the_higher_attempt_of_a_second_copy() -> None:
    bench = serving("before", "beside")
    bench.arrive(0, 2, sender="before")
    bench.arrive(0, 2, sender="beside", attempt=1)
    bench.executed(bench.running)
    assert executed(bench) == [(0, "before"), (0, "before")]
    assert bench.running.attempt == 1


def test_a_frame_ahead_of_the_assignment_that_lists_its_sender_waits_for_it() -> None:
    bench = serving()
    bench.arrive(0, 2, sender="new")
    bench.assign(partition(2, 3, senders=("new",)))
    assert executed(bench) == [(0, "new")]
    assert bench.reported(FrameReceived)[0].sender == "new"


def test_and_before_any_assignment_it_is_judged_when_one_comes() -> None:
    bench = Bench()
    bench.connect()
    bench.arrive(0, 2, sender="before")
    bench.arrive(1, 2, sender="liar")
    bench.assign(SERVED, limits=LIMITS)
    assert [each.activation.item for each in bench.reported(FrameReceived)] == [0]
    bench.wait(5.0)
    assert [each.sender for each in bench.reported(FrameDropped)] == ["liar"]


def test_former_senders_count_as_long_as_the_cut_is_served() -> None:
    bench = serving("before")
    bench.assign(partition(2, 3, senders=("new",)))
    bench.arrive(0, 2, sender="before")
    assert executed(bench) == [(0, "before")]
    bench.executed(bench.running)
    bench.assign(partition(4, 5, senders=("phone",)))
    bench.assign(partition(2, 3, senders=("new",)))
    bench.arrive(1, 2, sender="before")
    assert executed(bench) == [(0, "before")]


def test_an_assignment_without_senders_takes_frames_from_anybody() -> None:
    bench = Bench()
    bench.serve(partition(2, 3))
    bench.arrive(0, 2, sender="anybody")
    assert executed(bench) == [(0, "anybody")]


def test_what_we_make_ourselves_is_ours_to_send() -> None:
    bench = Bench()
    bench.serve(partition(0, 1, senders=("orchestrator",)), SERVED, routes=(route(2, "phone"),))
    bench.assign(partition(0, 1, senders=("orchestrator",)), partition(2, 3, senders=("phone",)))
    bench.arrive(0, 2, sender="phone")
    assert bench.reported(FrameReceived)[0].sender == "phone"


def test_an_inventory_lists_no_strangers_frames() -> None:
    bench = busy()
    bench.arrive(0, 2, sender="liar")
    bench.arrive(1, 2, sender="before")
    bench.command(Report())
    told_all = bench.reported(Inventory)[-1]
    assert [at.item for at in told_all.inputs] == [1, 9]


def test_a_strangers_frame_promises_no_output() -> None:
    bench = serving()
    bench.arrive(0, 2, sender="liar")
    bench.command(Send("r", 4, (0,), "next"))
    assert bench.reported(FrameDropped)[-1].kind == "not_held"


def test_of_a_lost_frame_its_sender_is_told() -> None:
    bench = serving()
    bench.do(happened.FrameLost(AT, "timed_out", "1 of 3 parts", "liar"))
    assert bench.reported(FrameDropped)[-1].sender == "liar"


def test_a_strangers_copy_hides_no_lost_frame() -> None:
    bench = serving()
    bench.arrive(0, 2, sender="liar")
    bench.do(happened.FrameLost(AT, "timed_out", "1 of 3 parts", "before"))
    assert bench.reported(FrameDropped)[-1].sender == "before"


def test_so_many_former_senders_are_remembered_and_no_more() -> None:
    senders = Senders()
    names = tuple(f"d{number}" for number in range(MOST))
    senders.list_anew([partition(2, 3, senders=names)])
    senders.list_anew([partition(2, 3, senders=("new",))])
    key = (MODEL, False, 2)
    assert senders.admits(key, "new")
    assert not senders.admits(key, "d0")


def lose(bench: Bench, sender: str, kind: str, times: int) -> int:
    """How many of so many lost frames are told."""
    before = len(bench.reported(FrameDropped))
    for item in range(times):
        bench.do(happened.FrameLost(ActivationId("r", item, 2), kind, "no frame", sender))
    return len(bench.reported(FrameDropped)) - before


def test_of_what_strangers_send_that_is_no_frame_a_few_are_told_and_the_rest_counted() -> None:
    bench = serving()
    assert lose(bench, "liar", "malformed", 100) == AT_ONCE
    assert bench.machine.counts["unsaid_drops"] == 100 - AT_ONCE
    bench.wait(2 * EVERY_S)
    assert lose(bench, "liar", "timed_out", 100) == 2


def test_of_those_that_may_send_and_of_what_has_no_room_all_are_told() -> None:
    bench = serving()
    assert lose(bench, "before", "malformed", 100) == 100
    assert lose(bench, "liar", "too_large", 100) == 100
