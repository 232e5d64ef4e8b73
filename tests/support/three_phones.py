"""Three made-up phones that serve a model of six segments, and what tests ask of them."""

from __future__ import annotations

from tests.support.fake_fleet import FakeAgent, World
from tests.support.tiny_manifest import MB, tiny_manifest
from wire.messages.requests import RunOptions


def three(count: int = 3, **of: object) -> World:
    names = [chr(ord("a") + index) for index in range(count)]
    return World(tiny_manifest(weights=[10 * MB] * 6)).begin(*names, **of)


IN_THREE = RunOptions(partitions=3)


def serving(world: World, first: int) -> FakeAgent:
    (plan,) = world.machine.state.plans.values()
    placement = plan.stage_of(first)
    assert placement is not None
    assert placement.device is not None
    return world.agents[placement.device]


def results(world: World, items: int, run: str = "r1") -> bool:
    return all(world.outcomes[run, item] == ["result"] for item in range(items))
