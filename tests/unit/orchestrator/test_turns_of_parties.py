"""Items enter a plan by party in turn, whatever number of runs a party has."""

from __future__ import annotations

from collections import Counter

import pytest

from orchestrator.machine.records.options import OrchestratorOptions
from tests.support.fake_fleet import World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages.requests import CancelRun, RunOptions

ANN, BOB = "clients/ann/s1", "clients/bob/s1"
ROOMY = 1_000_000
ONE_AT_A_TIME = 15_000  # bytes that a device may hold: room for one item


def world_of(hold: int, **options: int) -> World:
    world = World(tiny_manifest(weights=[10 * MB] * 3), OrchestratorOptions(**options))
    return world.begin("a", "b", "c", hold=hold, compute_s=0.5)


def ended(world: World) -> Counter[str]:
    """Items with an outcome, by party."""
    return Counter(world.parties[run] for run, _ in world.outcomes)


@pytest.mark.parametrize("hold", [ONE_AT_A_TIME, 4 * ONE_AT_A_TIME])
def test_a_client_with_one_run_gets_as_much_as_one_with_fifty(hold: int) -> None:
    world = world_of(hold)
    for index in range(50):
        world.submit(f"b{index}", items=1, party=BOB)
    world.run_for(1.0)
    world.submit("a0", items=8, party=ANN)
    world.run_for(20.0, lambda: ended(world)[ANN] >= 1)
    before = ended(world)[BOB]  # what was under way when ann came is done
    world.run_for(20.0, lambda: ended(world)[ANN] >= 7)
    assert ended(world)[ANN] == 7
    assert 4 <= ended(world)[BOB] - before <= 8


def test_each_run_of_a_party_gets_its_turn() -> None:
    world = world_of(ONE_AT_A_TIME)
    for index in range(4):
        world.submit(f"b{index}", items=10, party=BOB)
    world.submit("a0", items=20, party=ANN)
    world.run_for(60.0, lambda: ended(world)[BOB] >= 12)
    of_runs = Counter(run for run, _ in world.outcomes)
    assert {of_runs[f"b{index}"] for index in range(4)} <= {2, 3, 4}  # some were here before others


def test_a_party_alone_fills_several_windows_and_beside_another_one() -> None:
    world = world_of(ROOMY, window=2)
    for index in range(6):
        world.submit(f"b{index}", items=8, party=BOB)
    world.run_for(2.0)
    turns = world.machine.state.runs.turns
    (key,) = turns
    assert turns[key].in_flight[BOB] == 4 * 2
    world.submit("a0", items=40, party=ANN)
    world.run_for(8.0)
    assert dict(turns[key].in_flight) == {ANN: 2, BOB: 2}
    for index in range(6):
        world.ask(CancelRun(f"b{index}"), BOB)
    world.submit("a1", items=40, party=ANN)
    world.run_for(2.0)
    assert dict(turns[key].in_flight) == {ANN: 4}


def test_a_barrier_run_of_a_party_that_has_its_share_under_way_waits_its_turn() -> None:
    world = world_of(ROOMY, window=2)
    world.submit("a0", items=10, party=ANN)
    for index in range(3):
        world.submit(f"b{index}", items=6, options=RunOptions(barrier=True), party=BOB)
    for run, items in (("a0", 10), ("b0", 6), ("b1", 6), ("b2", 6)):
        world.complete(run, items, limit_s=300.0)
