"""A party speaks of its own runs alone: of another's it is told what it would be told of none.

Another session of the same user may cancel a run and collect it: see `test_collecting`.
"""

from __future__ import annotations

import pytest

from orchestrator.machine.records import instructions as ins
from tests.support.fake_fleet import CLIENT, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages import requests as req

BOB = "clients/bob/s1"  # another user
STRANGERS = (BOB, "clients/ann/s2")  # and another session


@pytest.fixture(params=STRANGERS)
def stranger(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world() -> World:
    """Its client has a run with a result that it did not acknowledge, and more to come."""
    world = World(tiny_manifest(weights=[10 * MB] * 3)).begin("a")
    world.submit(items=1)
    world.feeding["r1"] = (0, 1)
    world.ask(req.Submit("r2", "tiny"))
    world.complete(items=1)
    return world


def says(world: World, request: req.Request, party: str) -> list[req.Response]:
    """What the party is told; nothing else may follow."""
    world.client_there = False
    world.run_for(1.0)
    heard_at = {name: run.heard_at for name, run in world.machine.state.runs.items()}
    world.carried_out.clear()
    world.ask(request, party)
    world.run_for(0.5)
    assert {name: run.heard_at for name, run in world.machine.state.runs.items()} == heard_at
    told = [each for _, each in world.carried_out if not isinstance(each, ins.PublishCommands)]
    assert all(isinstance(each, ins.Respond) and each.party == party for each in told)
    return [each.response for each in told if isinstance(each, ins.Respond)]


@pytest.mark.parametrize(
    "request_of_it",
    [req.Finish("r2", 5), req.LeaveRun("r2"), req.AcknowledgeResults("r1", (0,))],
    ids=lambda each: each.type,
)
def test_what_it_says_of_anothers_run_changes_nothing(
    world: World, stranger: str, request_of_it: req.Request
) -> None:
    assert says(world, request_of_it, stranger) == []
    runs = world.machine.state.runs
    assert runs["r2"].open
    assert runs["r2"].count is None
    assert 0 in runs["r1"].outcomes


def test_a_run_of_another_users_is_not_cancelled(world: World) -> None:
    assert says(world, req.CancelRun("r2"), BOB) == []
    assert world.machine.state.runs["r2"].open


@pytest.mark.parametrize("asked", [req.Resume("r1"), req.Renew(("r1",))], ids=lambda e: e.type)
@pytest.mark.parametrize(
    ("party", "why"), [(BOB, "not known here"), (STRANGERS[1], "another session")]
)
def test_a_run_of_anothers_is_not_told_of_to_it(
    world: World, party: str, why: str, asked: req.Request
) -> None:
    (rejected,) = says(world, asked, party)
    assert isinstance(rejected, req.Rejected)
    assert why in rejected.reason


def test_it_gets_no_run_under_anothers_id(world: World, stranger: str) -> None:
    (rejected,) = says(world, req.Submit("r1", "tiny"), stranger)
    assert isinstance(rejected, req.Rejected)
    assert "another client" in rejected.reason


def test_an_input_for_anothers_run_is_not_taken(world: World, stranger: str) -> None:
    world.parties["r2"] = stranger
    world.carried_out.clear()
    world.feed("r2", 0)
    world.run_for(0.5)
    assert not world.instructions(ins.StoreInput)
    assert world.instructions(ins.DiscardPending)
    assert not world.machine.state.runs["r2"].items


def test_an_input_for_a_run_that_another_just_announced_is_not_held(
    world: World, stranger: str
) -> None:
    world.ask(req.Submit("r3", "tiny", count=2, attached=2))
    world.parties["r3"] = stranger
    for item in range(2):
        world.feed("r3", item)
    world.run_for(1.0)
    assert world.machine.state.runs["r3"].party == CLIENT
    assert not world.instructions(ins.HoldInput)
    assert not world.machine.state.runs["r3"].items
