"""When the client gives up waiting, and what it says that it waited for."""

from __future__ import annotations

import pytest

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.surroundings import ABSENT_S, ANSWER_LIMIT_S
from tests.support.client_desk import (
    LIMIT_S,
    Desk,
    accepted,
    ask,
    connect,
    of,
    offer,
    requests,
    result,
)
from wire.messages.requests import (
    Accepted,
    CancelRun,
    InputsStored,
    RunWaits,
)


@pytest.mark.parametrize(
    ("online", "limit_s", "sentence"),
    [
        (None, ABSENT_S, "no orchestrator has ever connected"),
        (False, ABSENT_S, "the orchestrator is offline"),
        (True, ANSWER_LIMIT_S, "did not answer within 20 s"),
    ],
)
def test_an_orchestrator_that_does_not_answer_is_said(
    desk: Desk, online: bool | None, limit_s: float, sentence: str
):
    connect(desk, online)
    ask(desk)
    assert not of(desk.pass_time(limit_s - 0.1), ins.EndRun)
    (end,) = of(desk.pass_time(0.1), ins.EndRun)
    assert end.kind == "no_orchestrator"
    assert sentence in end.reason


def test_a_broker_that_stays_away_is_said(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    desk.hear(ev.Disconnected("connection refused"))
    (end,) = of(desk.pass_time(LIMIT_S), ins.EndRun)
    assert (end.kind, end.reason) == (
        "broker_unreachable",
        "waited 100 s for the broker: connection refused",
    )


def test_without_progress_a_run_ends_and_says_what_is_missing(desk: Desk):
    accepted(desk)
    offer(desk, 0, 1)
    desk.answer(InputsStored("r", ((0, 0),), 4))
    told = desk.pass_time(LIMIT_S)
    (end,) = of(told, ins.EndRun)
    assert end.kind == "timed_out"
    assert "waited 100 s for run r of 'toy'" in end.reason
    assert "1 inputs are not stored" in end.reason
    assert "2 of 2 results are missing" in end.reason
    assert requests(told, CancelRun) == [CancelRun("r")]


def test_a_run_that_has_nothing_yet_says_what_that_may_be(desk: Desk):
    accepted(desk)
    offer(desk, 0, 1)
    desk.answer(InputsStored("r", ((0, 1),), 4))
    (end,) = of(desk.pass_time(LIMIT_S), ins.EndRun)
    assert "2 of 2 results are missing; nothing is known to be in their way, so" in end.reason


def test_what_a_run_waited_for_is_said_instead(desk: Desk):
    accepted(desk)
    offer(desk, 0, 1)
    desk.answer(InputsStored("r", ((0, 1),), 4))
    desk.answer(RunWaits("r", "no_device", "no device is there"))
    (end,) = of(desk.pass_time(LIMIT_S), ins.EndRun)
    assert end.kind == "no_device"
    assert "no device is there; 2 of 2 results are missing" in end.reason
    assert "nothing is known" not in end.reason


def test_progress_moves_the_limit_unless_it_is_the_whole_runs(desk: Desk):
    accepted(desk)
    offer(desk, 0, 1)
    desk.pass_time(LIMIT_S - 1)
    result(desk, 0)
    assert not of(desk.pass_time(LIMIT_S - 1), ins.EndRun)
    whole = Desk()
    connect(whole)
    ask(whole, 2, total=True)
    whole.answer(Accepted("r", "d" * 64, 4))
    offer(whole, 0, 1)
    whole.pass_time(LIMIT_S - 1)
    result(whole, 0)
    assert of(whole.pass_time(1), ins.EndRun)


def test_a_reader_who_takes_long_is_not_waited_for(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    result(desk, 0)
    assert not of(desk.pass_time(10 * LIMIT_S), ins.EndRun)
    offer(desk, 1)
    assert not of(desk.pass_time(LIMIT_S - 1), ins.EndRun)


def test_what_a_run_waits_for_is_told_once_and_said_when_giving_up(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    nobody = RunWaits("r", "no_device", "no device is online: start an agent")
    assert desk.answer(nobody) == [ins.TellWait("r", "no device is online: start an agent")]
    assert desk.answer(nobody) == []
    assert desk.answer(RunWaits("other", "no_device", "?")) == []
    (end,) = of(desk.pass_time(LIMIT_S), ins.EndRun)
    assert end.kind == "no_device"
    assert end.reason.startswith("waited 100 s for run r of 'toy': no device is online")


def test_what_a_run_does_not_wait_for_any_more_is_not_blamed(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    desk.answer(RunWaits("r", "no_device", "no device is online"))
    assert desk.answer(RunWaits("r")) == [ins.TellWait("r", "")]
    (end,) = of(desk.pass_time(LIMIT_S), ins.EndRun)
    assert end.kind == "timed_out"
    assert "no device" not in end.reason
