"""A backup is restored while the devices remember what came after it: no item is lost to that."""

from __future__ import annotations

from copy import deepcopy

import pytest

from orchestrator.adapters.journal_file import MEANWHILE_STARTS
from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.journal import Journal
from tests.simulation.virtual_collector import VirtualCollector
from tests.simulation.world import World

OPTIONS = OrchestratorOptions(client_lease_s=15.0, client_gone_s=60.0)
ITEMS = 40
AT_ONCE_S = 8.0  # computing all of it anew takes no longer


def _goes_on_alone(barrier: bool = False) -> World:
    """Some of the run is over, some under way."""
    world = World(25, 25, 25, options=OPTIONS, validate_every=10)
    run = world.submit(items=ITEMS, detached=True, barrier=barrier)
    world.complete(run)
    return world


def _start_anew(world: World, journal: Journal) -> None:
    world.orchestrator.crash()
    world.orchestrator.journal = journal
    world.orchestrator.start()


def _is_over(world: World) -> bool:
    run = world.orchestrator.machine.state.runs["r1"]
    return run.over and not run.items


def _all_comes(world: World) -> None:
    assert world.clock.run_for(AT_ONCE_S, lambda: _is_over(world)), "it stalls"
    collected = VirtualCollector(world, "clients/ann/s2", {}).collect(world.client.runs["r1"])
    world.succeed(collected)
    assert len(collected.outcomes) == ITEMS


@pytest.mark.parametrize("starts", [0, 1, 3])
def test_a_restored_run_goes_on_at_once(starts: int) -> None:
    world = _goes_on_alone()
    backup = deepcopy(world.orchestrator.journal)
    backup.generation += MEANWHILE_STARTS
    world.clock.run_for(1.5)
    for _ in range(starts):
        _start_anew(world, world.orchestrator.journal)
        world.clock.run_for(0.5)
    _start_anew(world, backup)
    _all_comes(world)


def test_so_does_one_of_a_home_that_was_copied_by_hand() -> None:
    """Its generation is below what the devices obeyed, until they say so."""
    world = _goes_on_alone()
    backup = deepcopy(world.orchestrator.journal)
    world.clock.run_for(1.5)
    for _ in range(2):
        _start_anew(world, world.orchestrator.journal)
        world.clock.run_for(0.5)
    _start_anew(world, backup)
    _all_comes(world)


def test_so_does_a_barrier_run() -> None:
    world = _goes_on_alone(barrier=True)
    backup = deepcopy(world.orchestrator.journal)
    world.clock.run_for(3.0)
    _start_anew(world, backup)
    _all_comes(world)


def test_a_run_that_was_cancelled_after_the_backup_is_there_again() -> None:
    world = _goes_on_alone()
    backup = deepcopy(world.orchestrator.journal)
    world.client.cancel("r1")
    world.clock.run_for(1.5)
    world.client.vanish()
    _start_anew(world, backup)
    _all_comes(world)
