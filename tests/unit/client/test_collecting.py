"""A client takes over a run that is there, leaves one that goes on alone, and hears its news."""

from __future__ import annotations

from typing import Any

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.wanted import RENEW_S
from tests.support.client_desk import (
    LIMIT_S,
    NBYTES,
    Desk,
    accepted,
    connect,
    of,
    offer,
    requests,
    result,
    sent,
)
from wire.messages.requests import (
    ACKNOWLEDGED_COUNT,
    Accepted,
    AcknowledgeResults,
    CancelRun,
    Collected,
    CollectRun,
    InputsStored,
    ItemFailed,
    LeaveRun,
    ListRuns,
    Rejected,
    Renew,
    RequestFailed,
    Resume,
    RunNews,
    RunOptions,
    RunsListed,
    Submit,
)

DIGEST = "d" * 64


def collecting(desk: Desk) -> list[Any]:
    connect(desk)
    asked = ev.RunAsked("r", DIGEST, RunOptions(), None, 0, LIMIT_S, collect=True)
    return desk.hear(asked)


def collected(desk: Desk, *items: tuple[int, int], news: tuple[int, int] = (0, 0)) -> list[Any]:
    collecting(desk)
    return desk.answer(Collected("r", items, news, had=7))


def detaching(desk: Desk, count: int) -> list[Any]:
    connect(desk)
    options = RunOptions(detached=True)
    return desk.hear(ev.RunAsked("r", "toy", options, count, 10, LIMIT_S))


# --- collecting -----------------------------------------------------------------------------------


def test_a_run_is_asked_for_once_and_again_only_without_an_answer() -> None:
    desk = Desk()
    assert requests(collecting(desk), CollectRun) == [CollectRun("r", DIGEST)]
    assert not requests(desk.pass_time(1.5), CollectRun)
    assert len(requests(desk.pass_time(1.0), CollectRun)) == 1


def test_what_is_there_of_it_is_asked_for_and_given_once_in_the_order_in_which_it_comes() -> None:
    desk = Desk()
    told = collected(desk, (1, 2), (5, 5))
    assert of(told, ins.TellExpected) == [ins.TellExpected("r", 3, had=7)]
    assert requests(told, Resume) == [Resume("r")]
    desk.answer(InputsStored("r", ((0, 5),), 0))
    given = [result(desk, item) for item in (5, 1, 1, 0)]
    kinds = [type(each) for told in given for each in told if not isinstance(each, ins.Say)]
    assert kinds == [ins.GiveResult, ins.GiveResult, ins.DropResult, ins.DropResult]
    assert of(result(desk, 2), ins.EndRun) == [ins.EndRun("r")]


def test_nothing_is_acknowledged_before_it_is_safe_and_then_all_of_it() -> None:
    desk = Desk()
    collected(desk, (0, 1))
    result(desk, 0)
    desk.answer(ItemFailed("r", 1, "compute_failed", "no"))
    assert not requests(desk.pass_time(5.0), AcknowledgeResults)
    told = desk.hear(ev.RunLeft("r", (0, 1)))
    assert [each.request for each in of(told, ins.Say)] == [
        AcknowledgeResults("r", (0, 1)),
        LeaveRun("r"),
    ]


def test_what_comes_after_it_was_left_is_for_whoever_collects_it_next() -> None:
    """It was on its way when the reader went, who took none of it."""
    desk = Desk()
    collected(desk, (0, 3))
    result(desk, 0)
    desk.hear(ev.RunLeft("r", ()))
    told = [*result(desk, 1), *desk.answer(ItemFailed("r", 2, "compute_failed", "no"))]
    assert not requests([*told, *desk.pass_time(5.0)], AcknowledgeResults)


def test_many_are_acknowledged_in_messages_that_may_be_said() -> None:
    desk = Desk()
    connect(desk)
    told = desk.hear(ev.RunLeft("r", tuple(range(ACKNOWLEDGED_COUNT + 1))))
    assert [len(each.items) for each in requests(told, AcknowledgeResults)] == [
        ACKNOWLEDGED_COUNT,
        1,
    ]


def test_one_that_was_left_may_be_collected_here_again_and_its_end_is_not_the_new_ones() -> None:
    desk = Desk()
    collected(desk, (0, 9))
    asked = ev.RunAsked("r", DIGEST, RunOptions(), None, 0, LIMIT_S, collect=True)
    told = [*desk.hear(ev.RunLeft("r", ())), *desk.hear(asked)]
    assert not of(told, ins.EndRun)
    assert requests(told, CollectRun)


def test_who_stops_early_leaves_it_and_cancels_nothing() -> None:
    for stop in (ev.RunLeft("r", ()), ev.RunAbandoned("r")):
        desk = Desk()
        collected(desk, (0, 9))
        result(desk, 3)
        told = desk.hear(stop)
        assert [each.request for each in of(told, ins.Say)] == [LeaveRun("r")]
        assert not desk.pass_time(100.0)


def test_one_without_outcomes_is_over_at_once() -> None:
    assert of(collected(Desk()), ins.EndRun) == [ins.EndRun("r")]


def test_while_another_reads_it_that_is_what_it_waits_for() -> None:
    desk = Desk()
    collecting(desk)
    told = desk.answer(Rejected("r", "busy", "another client still reads run r", again_s=2.0))
    assert of(told, ins.TellWait) == [ins.TellWait("r", "another client still reads run r")]
    assert len(requests(desk.pass_time(2.5), CollectRun)) == 1
    told = desk.answer(Collected("r", ((0, 0),)))
    assert of(told, ins.TellWait) == [ins.TellWait("r", "")]


def test_who_gives_up_leaves_it_to_others() -> None:
    desk = Desk()
    collected(desk, (0, 0))
    told = desk.pass_time(LIMIT_S + 1.0)
    assert of(told, ins.EndRun)[0].kind == "timed_out"
    assert requests(told, LeaveRun) == [LeaveRun("r")]
    assert not requests(told, CancelRun)


def test_one_that_is_not_there_ends_with_why() -> None:
    desk = Desk()
    collecting(desk)
    told = desk.answer(Rejected("r", "unknown_run", "you have no run r"))
    assert of(told, ins.EndRun) == [ins.EndRun("r", "unknown_run", "you have no run r")]


def test_an_answer_that_comes_too_late_gives_the_run_back() -> None:
    desk = Desk()
    connect(desk)
    assert requests(desk.answer(Collected("r", ((0, 5),))), LeaveRun) == [LeaveRun("r")]


def test_while_it_is_read_that_is_said_and_after_a_reconnect_it_is_asked_after() -> None:
    desk = Desk()
    collected(desk, (0, 1))
    assert requests(desk.pass_time(RENEW_S + 1.0), Renew)
    desk.hear(ev.Disconnected("gone"))
    assert requests(desk.hear(ev.Connected()), Resume) == [Resume("r")]


def test_what_comes_after_a_break_is_ours_only_if_the_run_still_is() -> None:
    for answer, kind in (
        (InputsStored("r", ((0, 0),), 0), None),
        (Rejected("r", "user", "another session of its user reads this run"), "user"),
    ):
        desk = Desk()
        collected(desk, (0, 0))
        desk.answer(InputsStored("r", ((0, 0),), 0))
        desk.hear(ev.Disconnected("gone"))
        result(desk, 0)  # it had waited at the broker
        assert requests(desk.hear(ev.Connected()), Resume)
        (end,) = of(desk.answer(answer), ins.EndRun)
        assert end.kind == kind


# --- leaving --------------------------------------------------------------------------------------


def test_a_detached_run_ends_here_once_all_of_it_is_stored_and_is_left() -> None:
    desk = Desk()
    detaching(desk, 3)
    assert requests(offer(desk, 0, 1, 2), Submit)[0].options.detached
    told = desk.answer(Accepted("r", DIGEST, 8, ((0, 1),)))
    assert not of(told, ins.EndRun)
    told = desk.answer(InputsStored("r", ((0, 2),), 8))
    assert requests(told, LeaveRun) == [LeaveRun("r")]
    assert of(told, ins.EndRun) == [ins.EndRun("r")]


def test_outcomes_of_one_that_is_left_are_neither_given_nor_acknowledged() -> None:
    desk = Desk()
    detaching(desk, 2)
    offer(desk, 0)
    desk.answer(Accepted("r", DIGEST, 8, ((0, 0),)))
    told = [*result(desk, 0), *desk.answer(ItemFailed("r", 0, "compute_failed", "no"))]
    assert [type(each) for each in told] == [ins.DropResult]
    assert not requests(desk.pass_time(1.0), AcknowledgeResults)


def test_of_one_that_is_left_only_what_is_stored_is_asked() -> None:
    desk = Desk()
    detaching(desk, 2)
    offer(desk, 0)
    desk.answer(Accepted("r", DIGEST, 8))
    assert requests(desk.hear(ev.Connected()), Resume) == [Resume("r", reads=False)]


def test_more_inputs_than_the_window_go_out_as_they_are_stored() -> None:
    desk = Desk()
    detaching(desk, 40)
    desk.pass_time(1.0)
    granted = of(desk.answer(Accepted("r", DIGEST, 8)), ins.Grant)[0].total
    for item in range(40):
        assert item < granted
        assert item in sent(offer(desk, item, nbytes=NBYTES))
        told = desk.answer(InputsStored("r", ((0, item),), 8))
        granted = max([granted, *(each.total for each in of(told, ins.Grant))])
    assert of(told, ins.EndRun) == [ins.EndRun("r")]


# --- what is told, and asked ----------------------------------------------------------------------


def test_what_happened_is_told_once_and_in_order() -> None:
    desk = Desk()
    accepted(desk)
    stamps = [(1, 1), (1, 2), (1, 1), (1, 2), (2, 1)]
    told = [desk.answer(RunNews("r", stamp, f"{stamp}")) for stamp in stamps]
    shown = [each.text for news in told for each in of(news, ins.TellNews)]
    assert shown == ["(1, 1)", "(1, 2)", "(2, 1)"]
    assert desk.answer(RunNews("other", (9, 9), "?")) == []


def test_what_happened_before_it_was_collected_is_no_news() -> None:
    desk = Desk()
    collected(desk, (0, 3), news=(2, 4))
    assert desk.answer(RunNews("r", (2, 4), "long ago")) == []
    assert desk.answer(RunNews("r", (2, 5), "now")) == [ins.TellNews("r", "now")]


def test_the_list_of_runs_is_asked_for_until_it_is_answered_or_refused() -> None:
    desk = Desk()
    connect(desk)
    assert requests(desk.hear(ev.RunsAsked("q", 5.0)), ListRuns) == [ListRuns("q")]
    assert requests(desk.pass_time(2.5), ListRuns)
    listed = RunsListed("q", ())
    assert desk.answer(listed) == [ins.GiveAnswer("q", listed)]
    assert desk.answer(listed) == []
    desk.hear(ev.RunsAsked("p", 5.0, "r"))
    (given,) = desk.answer(RequestFailed("p", "operator", "no"))
    assert (given.answer, given.kind) == (None, "operator")


def test_a_run_of_another_session_is_cancelled() -> None:
    desk = Desk()
    connect(desk)
    assert desk.hear(ev.CancelAsked("r")) == [ins.Say(CancelRun("r"))]
