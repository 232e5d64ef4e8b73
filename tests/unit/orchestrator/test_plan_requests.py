"""A client asks who would serve a model, and why."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_fleet import World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages import requests as req
from wire.messages.requests import RunOptions


def world_of(*names: str, **of: Any) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names, **of)


def told(world: World, kind: type[Any]) -> list[Any]:
    return [each for each in world.told if isinstance(each, kind)]


def plan_of(world: World, **options: Any) -> req.Planned:
    world.ask(req.RequestPlan("q1", "tiny", RunOptions(**options)))
    world.run_for(0.1)
    (planned,) = told(world, req.Planned)
    assert isinstance(planned, req.Planned)
    return planned


def test_a_plan_says_who_would_serve_what_and_why_and_changes_nothing() -> None:
    world = world_of("a", "b", "c")
    planned = plan_of(world, partitions=2)
    assert [(row.first, row.last) for row in planned.partitions] in (
        [(0, 0), (1, 2)],
        [(0, 1), (2, 2)],
    )
    assert all(row.reason and row.need_nbytes <= row.budget_nbytes for row in planned.partitions)
    (unused,) = planned.left_out.values()
    assert "2 partitions" in unused
    assert not world.assignments
    assert not world.machine.state.plans


def test_a_plan_tells_why_devices_are_left_out() -> None:
    world = world_of("a", "b", "c")
    world.agents["b"].die()
    world.agents["c"].budget = MB
    world.agents["c"].start()
    world.run_for(0.2)
    planned = plan_of(world)
    assert planned.left_out["b"] == "it is offline"
    assert "budget" in planned.left_out["c"]


def test_a_plan_after_a_run_finds_everything_resident() -> None:
    world = world_of("a", "b", "c")
    world.submit(items=1)
    world.complete(items=1)
    assert [row.tier for row in plan_of(world).partitions] == [1, 1, 1]


@pytest.mark.parametrize(
    ("model", "options", "kind"),
    [
        ("nope", RunOptions(), "unknown_model"),
        ("tiny", RunOptions(partitions=7), "invalid_input"),
        ("tiny", RunOptions(policy="luck"), "invalid_input"),
    ],
)
def test_a_plan_that_cannot_be_says_why(model: str, options: RunOptions, kind: str) -> None:
    world = world_of("a")
    world.ask(req.RequestPlan("q1", model, options))
    world.run_for(0.1)
    assert told(world, req.RequestFailed)[0].kind == kind


def test_a_plan_without_devices_says_to_start_one() -> None:
    world = world_of()
    world.ask(req.RequestPlan("q1", "tiny"))
    world.run_for(0.1)
    failed = told(world, req.RequestFailed)[0]
    assert (failed.kind, "crowdpipe agent" in failed.reason) == ("no_device", True)


def test_a_plan_says_what_one_of_its_devices_would_take_alone() -> None:
    planned = plan_of(world_of("a", "b", "c"), partitions=3)
    assert planned.lone_device in {row.device for row in planned.partitions}
    assert planned.lone_s > planned.batch_s > 0


def test_where_one_device_serves_all_nothing_is_said_of_it() -> None:
    alone = plan_of(world_of("a"), partitions=1)
    assert (alone.lone_device, alone.lone_s) == ("", 0.0)
