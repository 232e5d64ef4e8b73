"""Numbered events of devices: each is handled once, in order, and acknowledged."""

from __future__ import annotations

from typing import Any

from orchestrator.machine.records import events as ev
from tests.support.fake_fleet import FakeAgent
from tests.support.few_devices import commands, device, quiet
from wire.messages import commands as cmd
from wire.messages import events as dev


def batch(agent: FakeAgent, first: int, *nonces: str, boot: str = "", gone: int = 0) -> Any:
    events = tuple(dev.Pong(nonce, 0.0) for nonce in nonces)
    told = dev.EventBatch(boot or agent.boot, agent.connection, first, events, gone)
    return ev.EventsArrived(agent.name, told)


def test_events_are_handled_once_and_acknowledged_again_when_repeated() -> None:
    world, agent = quiet()
    last = agent.seq
    for _ in range(3):
        world.tell(batch(agent, last + 1, "x", "y"))
        world.run_for(0.2)
    assert world.machine.state.counts["stale_pong"] == 2
    acks = [each for each in commands(world, cmd.Acknowledge) if each.seq == last + 2]
    assert len(acks) == 3


def test_a_repeat_that_also_brings_news_is_handled_for_its_news() -> None:
    world, agent = quiet()
    last = agent.seq
    world.tell(batch(agent, last + 1, "x"))
    world.tell(batch(agent, last + 1, "x", "y"))
    world.run_for(0.2)
    assert world.machine.state.counts["stale_pong"] == 2
    assert device(world).last_seq == last + 2


def test_a_batch_beyond_a_gap_waits_for_what_is_missing() -> None:
    world, agent = quiet()
    last = agent.seq
    world.tell(batch(agent, last + 3, "z"))
    world.run_for(0.2)
    assert device(world).last_seq == last
    assert world.machine.state.counts["event_gap"] == 1


def test_a_gap_of_numbers_that_are_gone_for_good_is_no_gap() -> None:
    world, agent = quiet()
    last = agent.seq
    world.tell(batch(agent, last + 3, "z", gone=2))
    world.run_for(0.2)
    assert device(world).last_seq == last + 3


def test_events_of_another_boot_are_dropped_and_counted() -> None:
    world, agent = quiet()
    world.tell(batch(agent, 1, "x", boot="old"))
    world.run_for(0.2)
    assert world.machine.state.counts["other_boot"] == 1


def test_events_that_an_earlier_orchestrator_acknowledged_are_not_waited_for() -> None:
    world, agent = quiet()
    agent.seq = 50
    agent.first_unacknowledged = 51
    world.start_orchestrator()
    agent.say(dev.Pong("x", 0.0))
    world.run_for(3.0)
    assert 51 < agent.seq == device(world).last_seq


def test_twenty_events_are_acknowledged_without_delay() -> None:
    world, agent = quiet()
    world.tell(batch(agent, agent.seq + 1, *["x"] * 20))
    world.run_for(0.006)
    assert commands(world, cmd.Acknowledge)[-1].seq == agent.seq + 20


def test_acknowledgements_are_gathered_for_a_moment() -> None:
    world, agent = quiet()
    before = len(commands(world, cmd.Acknowledge))
    for at in range(5):
        world.tell(batch(agent, agent.seq + 1 + at, "x"), 0.005 * at)
    world.run_for(1.0)
    assert len(commands(world, cmd.Acknowledge)) == before + 1
