"""Clients that are killed or cut off: nothing of theirs is left behind, and nothing is lost."""

from __future__ import annotations

import pytest

from orchestrator.machine.records.options import OrchestratorOptions
from tests.simulation.virtual_client import VirtualClient
from tests.simulation.world import World

OPTIONS = OrchestratorOptions(client_lease_s=15.0, client_gone_s=60.0, credit=1)


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("after_s", [0.01, 0.3, 1.0])
def test_a_killed_clients_run_ends_and_leaves_nothing(after_s: float, barrier: bool) -> None:
    world = World(25, 25, 25, options=OPTIONS)
    world.submit(items=120, barrier=barrier, lifetime_s=100.0)
    world.clock.run_for(after_s)
    world.client.vanish()
    world.clock.run_for(OPTIONS.client_gone_s + 5.0)
    (run,) = world.orchestrator.machine.state.runs.values() or [None]
    assert run is None or not run.open
    world.rest()
    journal = world.orchestrator.journal
    assert not any(record.inputs for record in journal.runs.values())
    world.clock.run_for(120.0)
    assert not journal.runs


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("after_s", [0.5, 1.5])
def test_a_client_that_was_cut_off_for_longer_than_its_lease_gets_every_result(
    after_s: float, barrier: bool
) -> None:
    world = World(25, 25, 25, options=OPTIONS)
    run = world.submit(items=40, barrier=barrier)
    world.clock.run_for(after_s)
    world.client.vanish()
    world.clock.run_for(OPTIONS.client_lease_s + 20.0)
    world.client.come_back()
    world.succeed(run)
    world.rest()


def test_others_have_the_room_of_a_client_that_is_gone() -> None:
    world = World(25, 25, 25, options=OPTIONS, hold_nbytes=20_000)
    world.submit("gone", items=200)
    world.clock.run_for(1.5)
    world.client.vanish()
    world.clock.run_for(OPTIONS.client_lease_s + 5.0)
    here = VirtualClient(world, "clients/bob/s1")
    run = here.submit("here", items=20)
    world.complete(run)
    assert set(run.outcomes.values()) == {"result"}


def test_a_restarted_orchestrator_ends_the_run_of_a_client_that_is_gone_once() -> None:
    world = World(25, 25, 25, options=OPTIONS)
    world.submit(items=600, lifetime_s=1000.0)
    world.clock.run_for(0.5)
    world.client.vanish()
    world.clock.run_for(OPTIONS.client_gone_s + 5.0)
    ended = dict(world.orchestrator.journal.ever)
    world.orchestrator.crash()
    world.orchestrator.start()
    world.clock.run_for(100.0)
    assert world.orchestrator.journal.ever == ended
    (run,) = world.orchestrator.machine.state.runs.values()
    assert run.state == "failed"
