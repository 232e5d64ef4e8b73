"""How a run is submitted: again until it is accepted, with its first inputs right behind."""

from __future__ import annotations

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.machine import ACK_S
from crowdpipe.client.runs import FIRST_S
from crowdpipe.client.steps import SUBMIT_AGAIN_S
from tests.support.client_desk import (
    OPTIONS,
    Desk,
    ask,
    connect,
    of,
    offer,
    requests,
    result,
    sent,
)
from wire.ids import ActivationId
from wire.messages.requests import (
    ATTACHED_COUNT,
    ATTACHED_NBYTES,
    Accepted,
    AcknowledgeResults,
    InputsStored,
    Rejected,
    Resume,
    Submit,
)


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


def test_outcomes_that_come_before_the_acceptance_are_acknowledged_in_time(desk: Desk):
    """What accepts the run may be lost, and the machine asks to be woken for nothing else."""
    connect(desk)
    ask(desk)
    offer(desk, 0, 1)
    desk.pass_time(FIRST_S)
    result(desk, 0)
    told = desk.pass_time(ACK_S)
    assert requests(told, AcknowledgeResults) == [AcknowledgeResults("r", (0,))]
    due = desk.machine.wake_at()
    assert due is not None
    assert due > desk.now
