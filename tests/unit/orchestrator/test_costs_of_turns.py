"""What an item costs, in calls, among many clients, and among many runs that are held back."""

from __future__ import annotations

from statistics import median

import pytest

from orchestrator.machine.records import events as ev
from tests.support.event_crowd import MOST, TIMES, Crowd
from wire.ids import ActivationId
from wire.messages import requests as req


def crowd_of(parties: int, runs: int) -> Crowd:
    """So many other clients with so many runs each, of one plan; each run has an input."""
    crowd = Crowd()
    for party in range(parties):
        for run in range(runs):
            begin(crowd, f"clients/u{party}/s1", f"u{party}r{run}")
    crowd.machine.validate()
    return crowd


def begin(crowd: Crowd, party: str, run: str) -> None:
    crowd.tell(ev.RequestArrived(party, req.Submit(run, crowd.models[0].name)))
    crowd.tell(ev.RunStored(run))
    head = crowd.head(ActivationId(run, 0, 0), crowd.models[0])
    crowd.tell(ev.InputArrived(party, head))
    crowd.tell(ev.InputStored(run, 0))


def cost_of_items(crowd: Crowd, held: int) -> float:
    """From its input on disk to its result on disk, of one client's items one after another."""
    model, calls = crowd.models[0], []
    for item in range(1, TIMES + 2):
        crowd.tell(crowd.input("busy0", item, model))
        cost = crowd.cost(ev.InputStored("busy0", item))
        device = crowd.machine.state.plans[model.digest, False].placements[-1].device
        assert device is not None
        at = ActivationId("busy0", item, len(model.segments))
        cost += crowd.cost(ev.ResultArrived(device, crowd.head(at, model)))
        cost += crowd.cost(ev.OutcomeStored("busy0", ev.Outcome(item)))
        calls.append(cost)
    (turns,) = crowd.machine.state.runs.turns.values()
    assert len(turns.held) == held
    crowd.machine.validate()
    return median(calls[1:])


@pytest.mark.parametrize(
    ("few", "many", "held"),
    [((1, 1), (200, 1), 0), ((1, 12), (1, 200), 1), ((2, 12), (40, 12), None)],
    ids=["1 and 200 clients", "12 and 200 runs of another", "2 and 40 clients that are held back"],
)
def test_an_item_costs_the_same_among_many_clients_and_runs(
    few: tuple[int, int], many: tuple[int, int], held: int | None
) -> None:
    small, large = (
        cost_of_items(crowd_of(*size), size[0] if held is None else held) for size in (few, many)
    )
    assert large <= MOST * small, f"{small:.0f} calls among few, {large:.0f} among many"
