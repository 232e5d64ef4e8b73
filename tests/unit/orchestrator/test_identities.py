"""Two agents of one name, each on a disk of its own, are told apart from one that starts again."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.machine.devices.identities import CONTESTED_S
from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from tests.support.fake_fleet import World
from tests.support.few_devices import world_of
from wire.messages.state import DeviceState, LastWork


def born(world: World, boot: str, before: str | None) -> None:
    """An agent of this name comes; its disk says which boot was there before it."""
    template = world.agents["a"].state("online")
    work = None if before is None else LastWork(before)
    state: DeviceState = replace(template, boot=boot, connection=f"c-{boot}", last_work=work)
    world.tell(ev.DeviceStateSeen("a", state, retained=False))
    world.run_for(0.05)


def gone(world: World, boot: str) -> None:
    template = world.agents["a"].state("offline")
    state = replace(template, boot=boot, connection=f"c-{boot}", reason="the connection was lost")
    world.tell(ev.DeviceStateSeen("a", state, retained=False))
    world.run_for(0.05)


def told(world: World) -> tuple[str, ...]:
    return world.instructions(ins.PublishState)[-1].state.contested


def test_two_that_alternate_are_told_and_no_longer_once_it_is_over() -> None:
    world = world_of("a")
    born(world, "one1", None)
    gone(world, "one1")
    born(world, "two1", None)
    gone(world, "two1")
    assert told(world) == ()
    born(world, "one2", "one1")
    assert told(world) == ("a",)
    world.run_for(CONTESTED_S + 1.0)
    assert told(world) == ()


def test_one_that_starts_again_and_again_is_alone() -> None:
    world = world_of("a")
    born(world, "b0", None)
    for number in range(1, 20):
        gone(world, f"b{number - 1}")
        born(world, f"b{number}", f"b{number - 1}")
    assert told(world) == ()


def test_one_whose_starts_were_not_all_seen_is_alone() -> None:
    world = world_of("a")
    born(world, "b0", None)
    born(world, "b5", "b4")
    born(world, "b9", None)
    assert told(world) == ()


def test_what_ran_is_not_suspected_of_having_ended_the_one_that_was_taken_over() -> None:
    world = world_of("a")
    device = world.machine.state.devices.get("a")
    assert device is not None
    device.former_boots.append("two0")
    world.submit(items=1)
    world.run_for(10.0, lambda: device.running is not None)
    item = world.machine.state.item("r1", 0)
    assert item is not None
    world.tell(ev.DeviceStateSeen("a", world.agents["a"].state("offline"), retained=False))
    world.run_for(0.05)
    assert item.suspicion is not None
    born(world, "two1", "two0")
    assert item.suspicion is None


def test_a_device_that_is_forgotten_is_not_told_any_more() -> None:
    world = world_of("a")
    for boot, before in (("one1", None), ("two1", None), ("one2", "one1")):
        born(world, boot, before)
    world.tell(ev.ForgetAsked("a"))
    world.run_for(CONTESTED_S + 1.0)
    assert told(world) == ()
