"""Plans that are asked for: repeated until they are answered, or given up."""

from __future__ import annotations

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.steps import SUBMIT_AGAIN_S
from tests.support.client_desk import (
    OPTIONS,
    Desk,
    connect,
    of,
    requests,
)
from wire.messages.requests import (
    Planned,
    RequestFailed,
    RequestPlan,
)


def test_a_plan_is_asked_for_until_it_is_answered(desk: Desk):
    connect(desk)
    told = desk.hear(ev.PlanAsked("q", "toy", OPTIONS, 30.0))
    assert requests(told, RequestPlan) == [RequestPlan("q", "toy", OPTIONS)]
    assert requests(desk.pass_time(SUBMIT_AGAIN_S), RequestPlan)
    planned = Planned("q", "toy", (), {})
    assert desk.answer(planned) == [ins.GiveAnswer("q", planned)]
    assert desk.answer(planned) == []
    assert desk.machine.wake_at() is None


def test_a_plan_that_fails_or_is_not_answered_is_an_error(desk: Desk):
    connect(desk)
    desk.hear(ev.PlanAsked("q", "toy", OPTIONS, 5.0))
    (given,) = desk.answer(RequestFailed("q", "no_device", "none"))
    assert (given.answer, given.kind) == (None, "no_device")
    desk.hear(ev.PlanAsked("p", "toy", OPTIONS, 5.0))
    (given,) = of(desk.pass_time(5.0), ins.GiveAnswer)
    assert (given.request, given.kind) == ("p", "no_orchestrator")
