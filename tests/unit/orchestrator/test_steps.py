"""Events that wait together are handled in one step where that changes nothing but its cost."""

from __future__ import annotations

import copy

from orchestrator.machine.machine import OrchestratorMachine
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from tests.support.calls import count_calls
from tests.support.fake_fleet import CLIENT, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.ids import ActivationId
from wire.messages.requests import AcknowledgeResults, CancelRun, RunOptions

ITEMS = 8


def world_of(gather_s: float | None = None) -> World:
    world = World(tiny_manifest(weights=[10 * MB] * 4)).begin("a", "b")
    world.gather_s = gather_s
    return world


def at_work() -> tuple[World, list[ev.Event]]:
    """A run that was accepted, and its inputs, which all wait together."""
    world = world_of()
    world.submit(items=ITEMS)
    world.feeding["r1"] = (ITEMS, ITEMS)
    world.run_for(0.1)
    heads = [world.head(ActivationId("r1", item, 0)) for item in range(ITEMS)]
    return world, [ev.InputArrived(CLIENT, head) for head in heads]


def test_a_run_ends_alike_whether_events_are_handled_together_or_one_by_one() -> None:
    for options in (RunOptions(), RunOptions(partitions=2), RunOptions(barrier=True)):
        ends = []
        for gather_s in (None, 0.0, 0.02, 0.2):
            world = world_of(gather_s)
            world.submit(items=ITEMS, options=options)
            world.complete(items=ITEMS)
            assert not any(agent.outputs for agent in world.agents.values())
            ends.append((world.outcomes, world.finals["r1"].keys(), world.inputs["r1"]))
        assert all(end == ends[0] for end in ends)


def test_together_they_store_what_they_store_one_by_one() -> None:
    world, events = at_work()
    one_by_one, together = copy.deepcopy(world.machine), world.machine
    each = [said for event in events for said in one_by_one.handle(event, world.now)]
    at_once = together.handle_all(events, world.now)
    assert stored_by(at_once) == stored_by(each) == list(range(ITEMS))


def stored_by(told: list[ins.Instruction]) -> list[int]:
    return [each.activation.item for each in told if isinstance(each, ins.StoreInput)]


def test_what_follows_events_is_done_once_for_all_of_them() -> None:
    world, events = at_work()
    alone, together = copy.deepcopy(world.machine), world.machine

    def one_by_one() -> None:
        for event in events:
            alone.handle(event, world.now)

    many, few = count_calls(one_by_one), count_calls(lambda: together.handle_all(events, world.now))
    assert few < 0.8 * many


def test_what_goes_from_disk_goes_at_once() -> None:
    world, events = at_work()
    machine = world.machine
    machine.handle_all(events, world.now)
    machine.handle_all([ev.InputStored("r1", item) for item in range(ITEMS)], world.now)
    told = machine.handle_all(_outcomes(world, machine), world.now)
    forgotten = [each for each in told if isinstance(each, ins.ForgetInputs)]
    assert [len(each.items) for each in forgotten] == [ITEMS]


def _outcomes(world: World, machine: OrchestratorMachine) -> list[ev.Event]:
    """Every item is cancelled, and that is on disk."""
    told = machine.handle(ev.RequestArrived(CLIENT, CancelRun("r1")), world.now)
    ended = [each.outcome for each in told if isinstance(each, ins.StoreOutcome)]
    assert len(ended) == ITEMS
    return [ev.OutcomeStored("r1", outcome) for outcome in ended]


def test_who_comes_or_goes_is_looked_at_before_what_follows_is_heard() -> None:
    """A client's cancellation stands between its acknowledgements: three steps."""
    world, events = at_work()
    told = world.machine.handle_all(
        [
            *events[:2],
            ev.RequestArrived(CLIENT, CancelRun("r1")),
            ev.RequestArrived(CLIENT, AcknowledgeResults("r1", ())),
            *events[2:],
        ],
        world.now,
    )
    assert stored_by(told) == [0, 1]
    assert sum(isinstance(each, ins.DiscardPending) for each in told) == ITEMS - 2
