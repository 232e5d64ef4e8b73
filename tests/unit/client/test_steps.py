"""Events that wait for the client's machine together are one step where they only go along."""

from __future__ import annotations

from typing import Any

from crowdpipe.client import events as ev
from crowdpipe.client.events import Ticked
from crowdpipe.client.mailbox import TOGETHER, Mailbox
from crowdpipe.client.steps_of_events import steps_of
from tests.support.client_desk import OPTIONS, Desk, requests
from wire.ids import ActivationId
from wire.messages.requests import Accepted, AcknowledgeResults, InputsStored, Rejected

ITEMS = 40


def working() -> Desk:
    """All of a run's inputs are with the orchestrator."""
    desk = Desk()
    desk.hear(ev.OrchestratorSeen(True, "life"))
    desk.hear(ev.Connected())
    desk.hear(ev.RunAsked("r", "m", OPTIONS, ITEMS, 100, 100.0))
    desk.pass_time(0.1)
    desk.answer(Accepted("r", "digest", ITEMS))
    for item in range(ITEMS):
        desk.hear(ev.InputOffered("r", item, 1000))
    desk.answer(InputsStored("r", ((0, ITEMS - 1),), ITEMS))
    return desk


def results(count: int) -> list[ev.Event]:
    return [ev.ResultArrived(ActivationId("r", item, 3)) for item in range(count)]


def acknowledged(said: list[Any]) -> list[tuple[int, ...]]:
    return [each.items for each in requests(said, AcknowledgeResults)]


def test_results_that_come_together_are_acknowledged_together() -> None:
    desk = working()
    said = desk.machine.handle_all(results(ITEMS - 1), desk.now)
    assert acknowledged(said) == [tuple(range(ITEMS - 1))]


def test_a_refusal_between_results_ends_the_run_before_those_behind_it() -> None:
    desk = working()
    refused = ev.ResponseArrived(Rejected("r", "timed_out", "gone"))
    came = results(4)
    steps = [len(step) for step in steps_of([*came[:2], refused, *came[2:]])]
    assert steps == [2, 1, 2]
    desk.machine.handle_all([*came[:2], refused, *came[2:]], desk.now)
    assert not desk.machine.runs


def test_what_waits_is_taken_together_up_to_a_bound_and_to_the_end() -> None:
    mailbox = Mailbox()
    for _ in range(TOGETHER + 2):
        mailbox.put(Ticked())
    mailbox.close(1.0)
    mailbox.put(Ticked())
    assert len(mailbox.take(0.0)) == TOGETHER
    assert mailbox.take(0.0) == [Ticked(), Ticked(), None]
    assert mailbox.take(0.0) == [Ticked()]
    assert mailbox.take(0.0) == []
