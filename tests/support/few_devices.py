"""A made-up world of a few devices, and what the orchestrator knows of one and tells it."""

from __future__ import annotations

from typing import Any

from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.device import Device
from tests.support.fake_fleet import FakeAgent, World
from tests.support.tiny_manifest import MB, tiny_manifest


def world_of(*names: str) -> World:
    return World(tiny_manifest(weights=[10 * MB] * 3)).begin(*names)


def device(world: World, name: str = "a") -> Device:
    found = world.machine.state.devices.get(name)
    assert found is not None
    return found


def commands(world: World, kind: type[Any]) -> list[Any]:
    batches: list[Any] = list(world.instructions(ins.PublishCommands))
    return [each for one in batches for each in one.batch.commands if isinstance(each, kind)]


def quiet(name: str = "a") -> tuple[World, FakeAgent]:
    world = world_of(name)
    agent = world.agents[name]
    agent.unacknowledged.clear()
    return world, agent
