"""What the client's machine says, when it repeats it, and when and how it gives up."""

from __future__ import annotations

from typing import Any

import pytest

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.machine import RENEW_S, SUBMIT_AGAIN_S, ClientMachine
from crowdpipe.client.runs import FIRST_S
from crowdpipe.client.surroundings import ABSENT_S, ANSWER_LIMIT_S
from wire.ids import ActivationId
from wire.lifecycle import IllegalTransition
from wire.messages.requests import (
    ATTACHED_COUNT,
    ATTACHED_NBYTES,
    Accepted,
    AcknowledgeResults,
    CancelRun,
    Finish,
    InputsStored,
    ItemFailed,
    Planned,
    Rejected,
    Renew,
    RequestFailed,
    RequestPlan,
    Resume,
    RunOptions,
    RunWaits,
    Submit,
)

OPTIONS = RunOptions(exact=True)
LIMIT_S = 100.0
NBYTES = 1000


class Desk:
    """A machine, its clock, and what it said since the last look."""

    def __init__(self) -> None:
        self.machine = ClientMachine(validate=True)
        self.now = 0.0
        self.told: list[Any] = []

    def hear(self, event: ev.Event) -> list[Any]:
        self.told = self.machine.handle(event, self.now)
        return self.told

    def answer(self, response: Any) -> list[Any]:
        return self.hear(ev.ResponseArrived(response))

    def pass_time(self, seconds: float) -> list[Any]:
        """Everything said meanwhile, woken as the machine asks for."""
        until, said = self.now + seconds, []
        while True:
            due = self.machine.wake_at()
            if due is None or due > until:
                break
            self.now = max(self.now, due)
            said += self.hear(ev.Ticked())
        self.now = until
        return said + self.hear(ev.Ticked())

    def said(self, kind: type) -> list[Any]:
        """Requests of this kind in what was told last."""
        return requests(self.told, kind)


def requests(told: list[Any], kind: type) -> list[Any]:
    found = [each.request for each in told if isinstance(each, ins.Say)]
    return [request for request in found if isinstance(request, kind)]


def of(told: list[Any], kind: type) -> list[Any]:
    return [each for each in told if isinstance(each, kind)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def connect(desk: Desk, online: bool | None = True) -> list[Any]:
    if online is not None:
        desk.hear(ev.OrchestratorSeen(online, "c1" if online else ""))
    return desk.hear(ev.Connected())


def ask(desk: Desk, count: int | None = None, window: int = 10, total: bool = False) -> list[Any]:
    return desk.hear(ev.RunAsked("r", "toy", OPTIONS, count, window, LIMIT_S, total))


def accepted(desk: Desk, count: int | None = None, window: int = 10, credit: int = 4) -> list[Any]:
    """A run that was accepted before any input of it was there."""
    connect(desk)
    ask(desk, count, window)
    desk.pass_time(FIRST_S)
    return desk.answer(Accepted("r", "d" * 64, credit))


def offer(desk: Desk, *items: int, nbytes: int = NBYTES) -> list[Any]:
    return [each for item in items for each in desk.hear(ev.InputOffered("r", item, nbytes))]


def sent(told: list[Any]) -> list[int]:
    return [each.activation.item for each in of(told, ins.SendInput)]


def result(desk: Desk, item: int) -> list[Any]:
    return desk.hear(ev.ResultArrived(ActivationId("r", item, 3)))


def test_a_run_is_submitted_until_it_is_accepted(desk: Desk):
    connect(desk)
    ask(desk, 3)
    alone = Submit("r", "toy", OPTIONS, 3)
    assert requests(desk.pass_time(3 * SUBMIT_AGAIN_S + FIRST_S), Submit) == [alone] * 4
    desk.answer(Accepted("r", "d" * 64, 2))
    assert not requests(desk.pass_time(3 * SUBMIT_AGAIN_S), Submit)


def test_nothing_is_said_before_there_is_a_connection(desk: Desk):
    assert ask(desk) == []
    assert desk.pass_time(10) == []
    assert requests(connect(desk), Submit)


def test_inputs_go_out_within_the_credits(desk: Desk):
    accepted(desk, credit=2)
    assert sent(offer(desk, 0, 1, 2, 3)) == [0, 1]
    told = desk.answer(InputsStored("r", ((0, 0),), 2))
    assert of(told, ins.ForgetInput) == [ins.ForgetInput(ActivationId("r", 0, 0))]
    assert sent(told) == [2]
    told = desk.answer(InputsStored("r", ((0, 3),), 2))
    assert of(told, ins.Grant) == [ins.Grant("r", 6)]


def test_the_first_inputs_go_right_behind_the_submit(desk: Desk):
    connect(desk)
    assert ask(desk, 2) == [ins.Grant("r", ATTACHED_COUNT)]
    assert offer(desk, 0) == []
    assert offer(desk, 1) == [
        ins.Say(Submit("r", "toy", OPTIONS, 2, attached=2)),
        ins.SendInput(ActivationId("r", 0, 0)),
        ins.SendInput(ActivationId("r", 1, 0)),
    ]


def test_no_more_inputs_go_along_than_may_and_the_others_wait(desk: Desk):
    connect(desk)
    ask(desk)
    told = offer(desk, *range(ATTACHED_COUNT))
    assert requests(told, Submit)[0].attached == ATTACHED_COUNT
    assert sent(told) == list(range(ATTACHED_COUNT))
    assert not sent(offer(desk, ATTACHED_COUNT))
    told = desk.answer(Accepted("r", "d" * 64, 4, ((0, ATTACHED_COUNT - 1),)))
    assert sent(told) == [ATTACHED_COUNT]


def test_inputs_that_are_large_wait_until_the_run_is_accepted(desk: Desk):
    connect(desk)
    ask(desk)
    offer(desk, 0, nbytes=ATTACHED_NBYTES - 1)
    told = offer(desk, 1, nbytes=2) + offer(desk, 2, nbytes=1)
    assert requests(told, Submit) == [Submit("r", "toy", OPTIONS, None, attached=1)]
    assert sent(told) == [0]


def test_a_large_first_input_holds_nothing_up(desk: Desk):
    connect(desk)
    ask(desk)
    told = offer(desk, 0, nbytes=ATTACHED_NBYTES + 1)
    assert requests(told, Submit) == [Submit("r", "toy", OPTIONS)]
    assert not sent(told)


def test_a_submit_waits_only_a_moment_for_inputs(desk: Desk):
    connect(desk)
    ask(desk)
    offer(desk, 0)
    assert not desk.pass_time(FIRST_S / 2)
    told = desk.pass_time(FIRST_S / 2)
    assert requests(told, Submit) == [Submit("r", "toy", OPTIONS, None, attached=1)]
    assert sent(told) == [0]


def test_a_submit_that_is_repeated_goes_alone(desk: Desk):
    connect(desk)
    ask(desk, 1)
    offer(desk, 0)
    told = desk.pass_time(2 * SUBMIT_AGAIN_S)
    assert requests(told, Submit) == [Submit("r", "toy", OPTIONS, 1)] * 2
    assert not sent(told)


def test_what_was_taken_along_is_let_go_and_what_was_not_goes_again(desk: Desk):
    connect(desk)
    ask(desk, 3)
    offer(desk, 0, 1, 2)
    told = desk.answer(Accepted("r", "d" * 64, 4, ((1, 1),)))
    assert of(told, ins.ForgetInput) == [ins.ForgetInput(ActivationId("r", 1, 0))]
    assert sent(told) == [0, 2]
    assert not sent(desk.answer(Accepted("r", "d" * 64, 4, ((1, 1),))))


def test_an_orchestrator_that_takes_nothing_along_gets_all_again_at_once(desk: Desk):
    connect(desk)
    ask(desk, 2)
    offer(desk, 0, 1)
    told = desk.answer(Accepted("r", "d" * 64, 1))
    assert sent(told) == [0]
    assert sent(desk.answer(InputsStored("r", ((0, 0),), 1))) == [1]


def test_that_an_input_overtook_its_submit_is_no_refusal(desk: Desk):
    connect(desk)
    ask(desk, 1)
    offer(desk, 0)
    doubtful = Rejected("r", "timed_out", "not known here", doubtful=True)
    assert desk.answer(doubtful) == []
    assert not requests(desk.answer(Accepted("r", "d" * 64, 4, ((0, 0),))), Resume)
    assert requests(desk.answer(doubtful), Resume) == [Resume("r")]
    (end,) = of(desk.answer(Rejected("r", "timed_out", "not known here")), ins.EndRun)
    assert end.kind == "timed_out"


def test_a_result_may_overtake_the_acceptance(desk: Desk):
    connect(desk)
    ask(desk, 1)
    offer(desk, 0)
    told = result(desk, 0)
    assert of(told, ins.GiveResult)
    assert of(told, ins.EndRun) == [ins.EndRun("r")]
    assert desk.answer(Accepted("r", "d" * 64, 4, ((0, 0),))) == []


def test_a_refused_run_lets_go_of_what_went_along(desk: Desk):
    connect(desk)
    ask(desk, 2)
    offer(desk, 0, 1)
    told = desk.answer(Rejected("r", "unknown_model", "there is no model 'toy'"))
    assert {each.activation.item for each in of(told, ins.ForgetInput)} == {0, 1}
    assert of(told, ins.EndRun)


def test_of_a_run_that_was_never_submitted_nothing_is_said(desk: Desk):
    connect(desk)
    ask(desk, 1)
    told = desk.hear(ev.RunAbandoned("r"))
    assert [type(each) for each in told] == [ins.EndRun]


def test_the_window_bounds_what_nobody_has_taken(desk: Desk):
    accepted(desk, window=2, credit=8)
    offer(desk, 0, 1)
    assert of(desk.answer(InputsStored("r", ((0, 1),), 8)), ins.Grant) == []
    result(desk, 1)
    assert desk.machine.runs["r"].granted == 2
    assert desk.hear(ev.OutcomeTaken("r")) == [ins.Grant("r", 3)]


def test_what_was_not_stored_goes_again_after_a_reconnect(desk: Desk):
    accepted(desk)
    offer(desk, 0, 1, 2)
    desk.hear(ev.Disconnected("gone"))
    told = desk.hear(ev.Connected())
    assert requests(told, Resume) == [Resume("r")]
    told = desk.answer(InputsStored("r", ((1, 1),), 4))
    assert of(told, ins.ForgetInput) == [ins.ForgetInput(ActivationId("r", 1, 0))]
    assert [each.activation.item for each in of(told, ins.SendInput)] == [0, 2]


def test_a_new_life_of_the_orchestrator_is_asked_what_it_has(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    assert not requests(desk.hear(ev.OrchestratorSeen(True, "c1")), Resume)
    assert not requests(desk.hear(ev.OrchestratorSeen(False, "c1")), Resume)
    assert requests(desk.hear(ev.OrchestratorSeen(True, "c2")), Resume) == [Resume("r")]


def test_silence_is_asked_about_less_and_less(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    assert 3 <= len(requests(desk.pass_time(90), Resume)) <= 5


def test_each_outcome_is_given_once_and_acknowledged(desk: Desk):
    accepted(desk, 2)
    offer(desk, 0, 1)
    assert of(result(desk, 0), ins.GiveResult)
    assert of(result(desk, 0), ins.DropResult)
    told = desk.answer(ItemFailed("r", 0, "compute_failed", "no"))
    assert not of(told, ins.GiveError)
    told = desk.answer(ItemFailed("r", 1, "compute_failed", "no"))
    assert of(told, ins.GiveError) == [ins.GiveError("r", 1, "compute_failed", "no")]
    assert of(told, ins.EndRun) == [ins.EndRun("r")]
    acknowledged = {item for each in requests(told, AcknowledgeResults) for item in each.items}
    assert acknowledged == {0, 1}


def test_an_outcome_of_an_item_that_was_never_offered_is_dropped(desk: Desk):
    accepted(desk, 2)
    offer(desk, 0)
    assert of(result(desk, 1), ins.DropResult)
    assert not of(desk.answer(ItemFailed("r", 1, "timed_out", "?")), ins.GiveError)


def test_acknowledgements_travel_together(desk: Desk):
    accepted(desk, 20, credit=20, window=20)
    offer(desk, *range(10))
    said = [requests(result(desk, item), AcknowledgeResults) for item in range(10)]
    assert not any(said)
    (together,) = requests(desk.pass_time(0.1), AcknowledgeResults)
    assert together == AcknowledgeResults("r", tuple(range(10)))


def test_a_late_result_of_a_run_that_is_over_is_not_kept_for_us(desk: Desk):
    connect(desk)
    told = desk.hear(ev.ResultArrived(ActivationId("old", 7, 3)))
    assert told == [
        ins.DropResult(ActivationId("old", 7, 3)),
        ins.Say(AcknowledgeResults("old", (7,))),
    ]


def test_the_count_is_told_when_all_inputs_are_there(desk: Desk):
    accepted(desk)
    offer(desk, 0, 1)
    assert not requests(desk.hear(ev.InputsEnded("r", 2)), Finish)
    told = desk.answer(InputsStored("r", ((0, 1),), 4))
    assert requests(told, Finish) == [Finish("r", 2)]
    result(desk, 0)
    assert of(result(desk, 1), ins.EndRun) == [ins.EndRun("r")]


def test_a_rejected_run_ends_with_its_error(desk: Desk):
    connect(desk)
    ask(desk)
    told = desk.answer(Rejected("r", "unknown_model", "there is no model 'toy'"))
    assert told == [ins.EndRun("r", "unknown_model", "there is no model 'toy'")]
    assert desk.machine.wake_at() is None


def test_an_abandoned_run_is_cancelled_and_its_inputs_let_go(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    told = desk.hear(ev.RunAbandoned("r"))
    assert requests(told, CancelRun) == [CancelRun("r")]
    assert of(told, ins.ForgetInput) == [ins.ForgetInput(ActivationId("r", 0, 0))]
    assert desk.machine.wake_at() is None
    assert desk.hear(ev.InputOffered("r", 1, NBYTES)) == [ins.ForgetInput(ActivationId("r", 1, 0))]


@pytest.mark.parametrize(
    ("online", "limit_s", "sentence"),
    [
        (None, ABSENT_S, "no orchestrator was ever seen"),
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


def test_wanted_runs_are_named_now_and_then_even_if_nobody_reads(desk: Desk):
    accepted(desk)
    offer(desk, 0)
    result(desk, 0)
    told = desk.pass_time(4 * RENEW_S + 1.0)
    assert requests(told, Renew) == [Renew(("r",))] * 4
    desk.hear(ev.RunAbandoned("r"))
    assert not requests(desk.pass_time(4 * RENEW_S), Renew)


def test_a_run_is_named_as_wanted_only_between_its_acceptance_and_its_end(desk: Desk):
    connect(desk)
    ask(desk, 1)
    assert not requests(desk.pass_time(RENEW_S + 1.0), Renew)
    desk.answer(Accepted("r", "d" * 64, 4))
    offer(desk, 0)
    assert requests(desk.pass_time(RENEW_S + 1.0), Renew)
    result(desk, 0)
    assert not requests(desk.pass_time(RENEW_S + 1.0), Renew)


def test_a_client_that_was_away_says_at_once_what_it_wants(desk: Desk):
    accepted(desk)
    desk.hear(ev.Disconnected("gone"))
    assert not desk.pass_time(10 * RENEW_S)
    assert requests(desk.hear(ev.Connected()), Resume) == [Resume("r")]


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


def test_a_run_moves_only_forward(desk: Desk):
    accepted(desk)
    with pytest.raises(IllegalTransition, match=r"accepted -> submitting.*Accepted\(run='r'"):
        desk.machine.runs["r"].life.move("submitting", 1.0)


def test_a_plan_is_asked_for_until_it_is_answered(desk: Desk):
    connect(desk)
    told = desk.hear(ev.PlanAsked("q", "toy", OPTIONS, 30.0))
    assert requests(told, RequestPlan) == [RequestPlan("q", "toy", OPTIONS)]
    assert requests(desk.pass_time(SUBMIT_AGAIN_S), RequestPlan)
    planned = Planned("q", "toy", (), {})
    assert desk.answer(planned) == [ins.GivePlan("q", planned)]
    assert desk.answer(planned) == []
    assert desk.machine.wake_at() is None


def test_a_plan_that_fails_or_is_not_answered_is_an_error(desk: Desk):
    connect(desk)
    desk.hear(ev.PlanAsked("q", "toy", OPTIONS, 5.0))
    (given,) = desk.answer(RequestFailed("q", "no_device", "none"))
    assert (given.planned, given.kind) == (None, "no_device")
    desk.hear(ev.PlanAsked("p", "toy", OPTIONS, 5.0))
    (given,) = of(desk.pass_time(5.0), ins.GivePlan)
    assert (given.request, given.kind) == ("p", "no_orchestrator")
