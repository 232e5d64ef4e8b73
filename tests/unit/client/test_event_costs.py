"""What one event costs the client's machine, whatever else there is: counted in calls."""

from __future__ import annotations

import pytest

from crowdpipe.client import events as ev
from crowdpipe.client.machine import ClientMachine
from tests.support.calls import count_calls
from wire.ids import ActivationId
from wire.messages.requests import (
    Accepted,
    InputsStored,
    ItemFailed,
    Planned,
    Rejected,
    RequestFailed,
    RunOptions,
    RunWaits,
)

FEW, MANY = 1, 1000
MOST_GROWTH = 1.5
RUN, NBYTES, LIMIT_S = "r0", 100, 300.0
OPTIONS = RunOptions()


def ask(machine: ClientMachine, run: str, now: float, window: int = 10) -> None:
    machine.handle(ev.RunAsked(run, "toy", OPTIONS, None, window, LIMIT_S), now)


def answer(machine: ClientMachine, response: object, now: float) -> None:
    machine.handle(ev.ResponseArrived(response), now)  # type: ignore[arg-type] # any of them


def machine_of(runs: int, items: int = 1, stored: int = 1) -> ClientMachine:
    """Connected, with so many accepted runs of so many items under way, and a question open for
    each. All that is due by now has been done."""
    machine = ClientMachine()
    machine.handle(ev.OrchestratorSeen(True, "life"), 0.0)
    machine.handle(ev.Connected(), 0.0)
    for number in range(runs):
        name = f"r{number}"
        ask(machine, name, 0.0, window=2 * items)
        for item in range(items):
            machine.handle(ev.InputOffered(name, item, NBYTES), 0.0)
        machine.handle(ev.Ticked(), 0.01)
        answer(machine, Accepted(name, "d" * 64, 2 * items), 0.02)
        machine.handle(ev.PlanAsked(f"q{number}", "toy", OPTIONS, LIMIT_S), 0.02)
    return machine


EVENTS: dict[str, ev.Event] = {
    "nothing is due": ev.Ticked(),
    "a run is asked for": ev.RunAsked("new", "toy", OPTIONS, 1, 10, LIMIT_S),
    "an input": ev.InputOffered(RUN, 1, NBYTES),
    "the inputs' end": ev.InputsEnded(RUN, 1),
    "a result": ev.ResultArrived(ActivationId(RUN, 0, 3)),
    "an outcome is taken": ev.OutcomesTaken(RUN),
    "a run is abandoned": ev.RunAbandoned(RUN),
    "a plan is asked for": ev.PlanAsked("new", "toy", OPTIONS, LIMIT_S),
    "a plan": ev.ResponseArrived(Planned("q0", "toy", (), {})),
    "no plan": ev.ResponseArrived(RequestFailed("q0", "no_device", "none")),
    "an acceptance": ev.ResponseArrived(Accepted(RUN, "d" * 64, 4)),
    "an input is stored": ev.ResponseArrived(InputsStored(RUN, ((0, 0),), 4)),
    "an item fails": ev.ResponseArrived(ItemFailed(RUN, 0, "compute_failed", "no")),
    "a run waits": ev.ResponseArrived(RunWaits(RUN, "no_device", "none")),
    "a run is refused": ev.ResponseArrived(Rejected(RUN, "timed_out", "unknown")),
    "the connection is lost": ev.Disconnected("gone"),
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_event_costs_the_same_among_however_many_runs(event: ev.Event):
    few, many = (
        count_calls(lambda machine=machine_of(runs): machine.handle(event, 0.03))
        for runs in (FEW, MANY)
    )
    assert many <= MOST_GROWTH * few, f"{few} calls with {FEW} runs, {many} with {MANY}"


@pytest.mark.parametrize(
    "event",
    [
        ev.InputOffered(RUN, MANY, NBYTES),
        ev.ResponseArrived(InputsStored(RUN, ((0, 0),), 4 * MANY)),
        ev.ResponseArrived(ItemFailed(RUN, 0, "compute_failed", "no")),
        ev.ResultArrived(ActivationId(RUN, 0, 3)),
        ev.OutcomesTaken(RUN),
    ],
    ids=lambda event: type(getattr(event, "response", event)).__name__,
)
def test_an_event_costs_the_same_among_however_many_items(event: ev.Event):
    few, many = (
        count_calls(lambda machine=machine_of(1, items): machine.handle(event, 0.03))
        for items in (FEW, MANY)
    )
    assert many <= MOST_GROWTH * few, f"{few} calls with {FEW} items, {many} with {MANY}"


def test_what_was_told_as_stored_before_costs_nothing_when_it_is_told_again():
    def another(before: int) -> int:
        machine = machine_of(1, 2 * MANY)
        answer(machine, InputsStored(RUN, ((0, before - 1),), 4 * MANY), 0.03)
        one_more = ev.ResponseArrived(InputsStored(RUN, ((0, before),), 4 * MANY))
        return count_calls(lambda: machine.handle(one_more, 0.03))

    assert another(MANY) <= MOST_GROWTH * another(FEW)


def test_looking_when_to_wake_costs_the_same_among_however_many_runs():
    few, many = (count_calls(machine_of(runs).wake_at) for runs in (FEW, MANY))
    assert many <= MOST_GROWTH * few


def test_one_run_that_is_due_costs_the_same_among_however_many_that_are_not():
    def tick(runs: int) -> int:
        machine = machine_of(runs)
        ask(machine, "due", 0.5)  # submitted again 2 s later, when nothing else is due
        for now in (0.51, 2.1):
            machine.handle(ev.Ticked(), now)
        return count_calls(lambda: machine.handle(ev.Ticked(), machine.wake_at() or 0.0))

    few, many = tick(FEW), tick(MANY)
    assert many <= MOST_GROWTH * few, f"{few} calls with {FEW} runs, {many} with {MANY}"


def test_a_new_connection_costs_each_run_the_same():
    """All of them have to ask what is there."""

    def reconnect(runs: int) -> float:
        machine = machine_of(runs)
        machine.handle(ev.Disconnected("gone"), 0.03)
        return count_calls(lambda: machine.handle(ev.Connected(), 0.04)) / runs

    assert reconnect(MANY) <= MOST_GROWTH * reconnect(FEW)
