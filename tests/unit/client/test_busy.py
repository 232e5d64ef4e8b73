"""An orchestrator that has no room for a run now: it is submitted again, within the limit."""

from __future__ import annotations

from typing import Any

import pytest

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.put_off import LEAST_S, MOST_S
from crowdpipe.client.runs import FIRST_S
from crowdpipe.client.steps import ASK_AGAIN_S
from crowdpipe.client.surroundings import ANSWER_LIMIT_S
from tests.support.client_desk import (
    LIMIT_S,
    OPTIONS,
    Desk,
    accepted,
    ask,
    connect,
    of,
    offer,
    requests,
    result,
    sent,
)
from wire.errors import Busy, from_kind
from wire.messages.requests import (
    Accepted,
    Planned,
    Rejected,
    RequestFailed,
    RequestPlan,
    Resume,
    Submit,
)

REASON = "64 runs of this client are under way already"


def refused(again_s: float = 2.0, run: str = "r") -> Rejected:
    return Rejected(run, "busy", REASON, again_s=again_s)


def submitted(desk: Desk, count: int = 2) -> None:
    connect(desk)
    ask(desk, count)
    offer(desk, *range(count))


def submits(desk: Desk, seconds: float) -> list[str]:
    return [each.run for each in requests(desk.pass_time(seconds), Submit)]


def test_a_run_that_is_refused_for_now_is_submitted_again_when_it_may(desk: Desk) -> None:
    submitted(desk)
    told = desk.answer(refused(3.0))
    assert of(told, ins.TellWait) == [ins.TellWait("r", REASON)]
    assert not of(told, ins.EndRun)
    assert submits(desk, 2.9) == []
    assert submits(desk, 0.2) == ["r"]
    told = desk.answer(Accepted("r", "d" * 64, 4))
    assert sent(told) == [0, 1]
    assert of(told, ins.TellWait) == [ins.TellWait("r", "")]


def test_it_waits_twice_as_long_each_time_up_to_a_bound(desk: Desk) -> None:
    submitted(desk)
    waits = []
    for _ in range(6):
        begun = desk.now
        desk.answer(refused(1.0))
        while not desk.said(Submit):
            due = desk.machine.wake_at()
            assert due is not None
            desk.now = due
            desk.hear(ev.Ticked())
        waits.append(desk.now - begun)
    assert waits == pytest.approx([1.0, 2.0, 4.0, 8.0, 8.0, 8.0])


@pytest.mark.parametrize(("again_s", "waits_s"), [(-1e9, LEAST_S), (0.0, LEAST_S), (1e9, MOST_S)])
def test_what_it_says_of_the_time_is_believed_within_reason(
    desk: Desk, again_s: float, waits_s: float
) -> None:
    submitted(desk)
    desk.answer(refused(again_s))
    assert submits(desk, waits_s - 0.01) == []
    assert submits(desk, 0.02) == ["r"]


def test_it_is_busy_and_not_absent_for_as_long_as_the_person_waits(desk: Desk) -> None:
    submitted(desk)
    end: list[Any] = []
    while desk.now < LIMIT_S + 1 and not end:
        end = of(desk.answer(refused(1.0)), ins.EndRun) or of(desk.pass_time(1.0), ins.EndRun)
    assert desk.now > ANSWER_LIMIT_S
    (ended,) = end
    error = from_kind(ended.kind, ended.reason)
    assert isinstance(error, Busy)
    assert REASON in error.reason


def test_who_does_not_wait_that_long_is_told_at_once(desk: Desk) -> None:
    connect(desk)
    desk.hear(ev.RunAsked("r", "toy", OPTIONS, 1, 10, 1.5))
    desk.pass_time(FIRST_S)
    (end,) = of(desk.answer(refused(2.0)), ins.EndRun)
    assert end.kind == "busy"


def test_one_that_waits_goes_as_soon_as_another_run_ends(desk: Desk) -> None:
    accepted(desk, count=1)
    offer(desk, 0)
    for name in ("s", "t"):
        desk.hear(ev.RunAsked(name, "toy", OPTIONS, 1, 10, LIMIT_S))
        desk.pass_time(FIRST_S)
        desk.answer(refused(5.0, name))
    result(desk, 0)
    assert [each.run for each in desk.said(Submit)] == ["s"]
    assert submits(desk, 1.0) == []


def test_a_run_that_is_not_answered_while_another_is_refused_waits_on(desk: Desk) -> None:
    """Who floods is answered once a second; the runs in between hear nothing."""
    connect(desk)
    for name in ("s", "t"):
        desk.hear(ev.RunAsked(name, "toy", OPTIONS, 1, 10, LIMIT_S))
    told: list[Any] = []
    while desk.now < 2 * ANSWER_LIMIT_S:
        told += desk.answer(refused(1.0, "s")) + desk.pass_time(5.0)
    assert not of(told, ins.EndRun)
    told = desk.pass_time(ANSWER_LIMIT_S)
    assert [(each.run, each.kind) for each in of(told, ins.EndRun)] == [("t", "no_orchestrator")]


def test_an_accepted_run_is_asked_after_when_it_may(desk: Desk) -> None:
    accepted(desk, count=2)
    offer(desk, 0, 1)
    told = desk.answer(refused(ASK_AGAIN_S + 2.0))
    assert not of(told, ins.EndRun)
    assert not requests(desk.pass_time(ASK_AGAIN_S + 1.0), Resume)
    assert requests(desk.pass_time(1.1), Resume) == [Resume("r")]


def test_a_busy_that_says_no_time_ends_the_run(desk: Desk) -> None:
    submitted(desk)
    (end,) = of(desk.answer(Rejected("r", "busy", REASON)), ins.EndRun)
    assert end.kind == "busy"


def asked_plan(desk: Desk, limit_s: float) -> None:
    connect(desk)
    desk.hear(ev.PlanAsked("q", "toy", OPTIONS, limit_s))


def test_a_plan_is_asked_for_again_when_it_may(desk: Desk) -> None:
    asked_plan(desk, LIMIT_S)
    assert desk.answer(RequestFailed("q", "busy", REASON, 3.0)) == []
    assert not requests(desk.pass_time(2.9), RequestPlan)
    assert requests(desk.pass_time(0.2), RequestPlan)
    planned = Planned("q", "toy", (), {})
    assert desk.answer(planned) == [ins.GiveAnswer("q", planned)]


def test_a_plan_that_cannot_be_asked_for_again_in_time_is_busy(desk: Desk) -> None:
    asked_plan(desk, 2.0)
    (given,) = desk.answer(RequestFailed("q", "busy", REASON, 3.0))
    assert (given.kind, given.reason) == ("busy", REASON)
