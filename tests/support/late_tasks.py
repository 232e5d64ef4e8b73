"""Made-up phones of which one is late, and what tests of that ask."""

from __future__ import annotations

from orchestrator.machine.records import instructions as ins
from tests.support.fake_fleet import FakeAgent, World
from tests.support.three_phones import IN_THREE, serving, three
from wire.messages import commands as cmd

STUCK_S = 500.0


def warm(count: int = 4, compute_s: float = 0.05) -> World:
    """Each device has done some tasks, so that its own history counts."""
    world = three(count, compute_s=compute_s)
    world.submit(items=6, options=IN_THREE)
    world.complete(items=6)
    return world


def stuck(world: World, first: int = 2, seconds: float = STUCK_S, items: int = 4) -> FakeAgent:
    """From the next run on the device of that range takes so long, and yet answers."""
    late = serving(world, first)
    late.compute_s = seconds / 2
    world.submit(run="r2", items=items, options=IN_THREE)
    world.run_for(5.0, lambda: late.running is not None)
    return late


def counted(world: World, what: str) -> int:
    return world.machine.state.counts[what]


def cancelled(world: World, device: str) -> set[tuple[str, int]]:
    return {
        (each.run, item)
        for batch in world.instructions(ins.PublishCommands)
        if batch.device == device
        for each in batch.batch.commands
        if isinstance(each, cmd.Cancel)
        for item in each.items or ()
    }


def placed(world: World, first: int) -> str | None:
    """Who has the range that begins there."""
    (plan,) = world.machine.state.plans.values()
    placement = plan.stage_of(first)
    return placement.device if placement is not None else None


def devices(world: World) -> list[str]:
    return next(iter(world.machine.state.plans.values())).devices()


def spare_of(world: World) -> str:
    """A device that serves nothing."""
    return next(name for name in world.agents if name not in devices(world))


def results_of(world: World, run: str) -> list[int]:
    return [item for (of, item) in world.outcomes if of == run]
