"""Inputs, outcomes and ends of runs, as the client's machine tells them."""

from __future__ import annotations

import pytest

from crowdpipe.client import events as ev
from crowdpipe.client import instructions as ins
from crowdpipe.client.wanted import RENEW_S
from tests.support.client_desk import (
    NBYTES,
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
from wire.ids import ActivationId
from wire.lifecycle import IllegalTransition
from wire.messages.requests import (
    Accepted,
    AcknowledgeResults,
    CancelRun,
    Finish,
    InputsStored,
    ItemFailed,
    Rejected,
    Renew,
    Resume,
)


def test_inputs_go_out_within_the_credits(desk: Desk):
    accepted(desk, credit=2)
    assert sent(offer(desk, 0, 1, 2, 3)) == [0, 1]
    told = desk.answer(InputsStored("r", ((0, 0),), 2))
    assert of(told, ins.ForgetInput) == [ins.ForgetInput(ActivationId("r", 0, 0))]
    assert sent(told) == [2]
    told = desk.answer(InputsStored("r", ((0, 3),), 2))
    assert of(told, ins.Grant) == [ins.Grant("r", 6)]


def test_a_result_may_overtake_the_acceptance(desk: Desk):
    connect(desk)
    ask(desk, 1)
    offer(desk, 0)
    told = result(desk, 0)
    assert of(told, ins.GiveResult)
    assert of(told, ins.EndRun) == [ins.EndRun("r")]
    assert desk.answer(Accepted("r", "d" * 64, 4, ((0, 0),))) == []


def test_the_window_bounds_what_nobody_has_taken(desk: Desk):
    accepted(desk, window=2, credit=8)
    offer(desk, 0, 1)
    assert of(desk.answer(InputsStored("r", ((0, 1),), 8)), ins.Grant) == []
    result(desk, 1)
    assert desk.machine.runs["r"].granted == 2
    assert desk.hear(ev.OutcomesTaken("r")) == [ins.Grant("r", 3)]


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
    accepted(desk)
    offer(desk, 0, 1)
    desk.answer(InputsStored("r", ((0, 1),), 4))
    result(desk, 0)
    desk.hear(ev.RunAbandoned("r"))
    told = desk.hear(ev.ResultArrived(ActivationId("r", 1, 3)))
    assert told == [
        ins.DropResult(ActivationId("r", 1, 3)),
        ins.Say(AcknowledgeResults("r", (1,))),
    ]


def test_a_result_of_a_run_that_never_was_here_is_not_ours_to_acknowledge(desk: Desk):
    connect(desk)
    told = desk.hear(ev.ResultArrived(ActivationId("old", 7, 3)))
    assert told == [ins.DropResult(ActivationId("old", 7, 3))]


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


def test_a_run_moves_only_forward(desk: Desk):
    accepted(desk)
    with pytest.raises(IllegalTransition, match=r"accepted -> submitting.*Accepted\(run='r'"):
        desk.machine.runs["r"].life.move("submitting", 1.0)
