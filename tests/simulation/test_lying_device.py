"""An idle device speaks of what is not its own: whatever it says, every result is the whole
model's, and no item ends with an error."""

from __future__ import annotations

import pytest

from tests.simulation.liar import LIES
from tests.simulation.world import World

ITEMS, SEGMENTS = 4, 6
CASES = [(what, None) for what in LIES] + [("frame", 150), ("torn", 150)]


def lie_of_everything(world: World, what: str) -> None:
    """Frames go to everybody; events need nobody to go to."""
    readers = range(len(world.agents)) if what in ("frame", "torn") else [0]
    for item in range(ITEMS):
        for cut in range(SEGMENTS + 1):
            for which in readers:
                world.lie(what, "r1", item, cut, which)


@pytest.mark.parametrize(("what", "part_nbytes"), CASES)
def test_an_idle_devices_lies_change_nothing(what: str, part_nbytes: int | None) -> None:
    world = World(25, 25, 25, hold_nbytes=50_000, part_nbytes=part_nbytes)
    run = world.submit("r1", items=ITEMS)
    world.clock.run_for(100.0, lambda: run.accepted)
    for _ in range(6):
        lie_of_everything(world, what)
        world.clock.run_for(0.1)
    world.succeed(run)
    world.rest()


@pytest.mark.parametrize("what", LIES)
def test_nor_do_they_when_nobody_remembers_who_had_a_place(what: str) -> None:
    world = World(25, 25, 25, 25)
    run = world.submit("r1", items=ITEMS)
    world.clock.run_for(0.5)
    world.break_broker(keep_retained=False)
    world.orchestrator.crash()
    lie_of_everything(world, what)
    world.clock.run_for(0.5)
    world.orchestrator.start()
    for _ in range(4):
        lie_of_everything(world, what)
        world.clock.run_for(1.0)
    world.succeed(run)
    world.rest()
