"""What proves life, what ends it, and which of a device's words count."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from orchestrator.machine.records import events as ev
from orchestrator.machine.records import instructions as ins
from orchestrator.machine.records.transitions import TABLE, lifecycle_of
from orchestrator.machine.records.turns import AT_ONCE, WINDOW_S
from tests.support.fake_fleet import FakeAgent, World
from tests.support.few_devices import commands, device, world_of
from wire.lifecycle import HISTORY, IllegalTransition
from wire.messages import commands as cmd
from wire.messages import events as dev
from wire.messages.residency import Residency


def seen(world: World, status: str, retained: bool, **changes: str) -> None:
    agent = world.agents["a"]
    state = dataclasses.replace(agent.state(status), **changes)
    world.tell(ev.DeviceStateSeen("a", state, retained))
    world.run_for(0.05)


def stranger(world: World) -> FakeAgent:
    """An agent whose birth was never seen live, and that answers nothing."""
    agent = world.agents["a"] = FakeAgent(world, "a")
    agent.boots, agent.connections = 1, 1
    return agent


def test_a_retained_online_proves_nothing_and_is_asked_for_a_sign_of_life() -> None:
    world = world_of()
    stranger(world)
    seen(world, "online", retained=True)
    assert device(world).life.state == "unproven"
    assert len(commands(world, cmd.Ping)) == 1


def retained_crowd(world: World, count: int, *, online: bool) -> list[str]:
    names = [f"d{number:03}" for number in range(count)]
    for name in names:
        agent = world.agents[name] = FakeAgent(world, name)
        agent.boots, agent.connections, agent.online = 1, 1, online
        world.tell(ev.DeviceStateSeen(name, agent.state("online"), retained=True))
    return names


def asked(world: World) -> set[str]:
    return {
        one.device
        for one in world.instructions(ins.PublishCommands)
        if any(isinstance(command, cmd.Ping) for command in one.batch.commands)
    }


def test_of_many_that_only_retained_words_speak_of_as_many_are_asked_as_a_plan_may_use() -> None:
    world = world_of()
    names = retained_crowd(world, 3 * AT_ONCE, online=True)
    world.run_for(10 * WINDOW_S)
    assert asked(world) == {*names[:AT_ONCE]}


def test_those_that_do_not_answer_are_asked_some_at_a_time_but_for_who_speaks_meanwhile() -> None:
    world = world_of()
    names = retained_crowd(world, 3 * AT_ONCE, online=False)
    world.run_for(WINDOW_S / 2)
    assert asked(world) == {*names[:AT_ONCE]}
    for name in names[AT_ONCE : AT_ONCE + 10]:
        world.agents[name].online = True
        world.agents[name].say_telemetry()
    world.run_for(3 * WINDOW_S)
    assert asked(world) == {*names} - {*names[AT_ONCE : AT_ONCE + 10]}


@pytest.mark.parametrize("proof", ["telemetry", "events", "residency"])
def test_a_live_message_of_the_current_connection_proves_life(proof: str) -> None:
    world = world_of()
    agent = stranger(world)
    seen(world, "online", retained=True)
    agent.online = True
    if proof == "telemetry":
        agent.say_telemetry()
    elif proof == "events":
        agent.say(dev.Pong("x", 0.0))
    else:
        world.tell(ev.ResidencySeen("a", Residency(agent.connection, 0, 0, (), 0, 0), False))
    world.run_for(0.05)
    assert device(world).life.state == "alive"


def test_retained_telemetry_proves_nothing() -> None:
    world = world_of()
    agent = stranger(world)
    seen(world, "online", retained=True)
    telemetry = None
    world.tell = lambda event, after_s=0.0: found.append(event)  # type: ignore[method-assign, assignment] # a tap
    found: list[Any] = []
    agent.say_telemetry()
    telemetry = found[0].telemetry
    del world.tell
    world.tell(ev.TelemetrySeen("a", telemetry, True))
    world.run_for(0.05)
    assert device(world).life.state == "unproven"
    assert device(world).telemetry == telemetry


def test_a_message_of_another_connection_proves_nothing() -> None:
    world = world_of("a")
    seen(world, "offline", retained=False)
    assert device(world).life.state == "lost"
    world.agents["a"].say_telemetry()
    world.run_for(0.05)
    assert device(world).life.state == "lost"


def test_a_will_of_an_older_connection_is_ignored() -> None:
    world = world_of("a")
    old = world.agents["a"].connection
    world.agents["a"].connect()
    world.run_for(0.05)
    seen(world, "offline", retained=False, connection=old)
    assert device(world).life.state == "alive"
    assert world.machine.state.counts["stale_will"] == 1


def test_a_will_of_the_current_connection_loses_the_device_at_once() -> None:
    world = world_of("a")
    seen(world, "offline", retained=False)
    assert device(world).life.state == "lost"


def test_a_late_birth_of_an_ended_connection_does_not_bring_a_device_back() -> None:
    world = world_of("a")
    seen(world, "offline", retained=False)
    seen(world, "online", retained=False)
    assert device(world).life.state == "lost"


def test_an_idle_device_has_no_lease() -> None:
    world = world_of("a")
    world.agents["a"].mute = True
    world.run_for(500.0)
    assert device(world).life.state == "alive"


def test_an_idle_device_that_was_silent_answers_a_ping_before_it_gets_work() -> None:
    world = world_of("a")
    world.agents["a"].beats = False
    world.run_for(100.0)
    before = len(commands(world, cmd.Ping))
    world.submit(items=1)
    world.run_for(5.0, lambda: len(commands(world, cmd.Ping)) > before)
    assert not world.assignments
    world.complete(items=1)
    assert len(commands(world, cmd.Ping)) == before + 1


def test_an_idle_device_that_does_not_answer_gets_no_work() -> None:
    world = world_of("a", "b")
    silent = world.agents["a"]
    silent.mute = silent.online = True
    world.run_for(100.0)
    silent.online = False
    world.submit(items=2)
    world.complete(items=2)
    assert {name for _, name, _ in world.assignments} == {"b"}
    assert device(world, "a").life.state == "unproven"


def test_idle_devices_are_not_pinged_without_need() -> None:
    world = world_of("a", "b")
    before = len(commands(world, cmd.Ping))
    world.run_for(300.0)
    assert len(commands(world, cmd.Ping)) == before


def test_the_offset_of_a_devices_clock_is_estimated_from_pings() -> None:
    world = world_of("a")
    assert device(world).rtt_s == pytest.approx(0.01)
    assert device(world).offset_s == pytest.approx(1000.0, abs=0.006)


def test_our_own_sleep_ends_no_lease() -> None:
    world = world_of("a")
    world.agents["a"].compute_s = 100.0
    world.submit(items=1)
    world.run_for(10.0, lambda: bool(world.happened("TaskStarted")))
    world.machine.handle(ev.Ticked(), world.now + 3600.0)
    assert device(world).life.state == "alive"


def test_no_lease_runs_while_we_are_disconnected() -> None:
    world = world_of("a")
    world.agents["a"].compute_s = 100.0
    world.submit(items=1)
    world.run_for(10.0, lambda: bool(world.happened("TaskStarted")))
    world.agents["a"].online = False
    world.tell(ev.Disconnected("gone"))
    world.run_for(100.0)
    assert device(world).life.state == "alive"
    world.tell(ev.Connected("again"))
    world.run_for(1.0)
    assert device(world).life.state == "alive"
    world.run_for(30.0)
    assert device(world).life.state == "unproven"
    world.run_for(8.0)
    assert device(world).life.state == "lost"


def test_forgetting_a_device_clears_it_and_moves_its_work() -> None:
    world = world_of("a", "b", "c", "d")
    world.submit(items=3)
    world.run_for(10.0, lambda: bool(world.happened("TaskStarted")))
    world.agents["a"].online = False
    world.tell(ev.ForgetAsked("a"))
    world.complete(items=3)
    assert world.instructions(ins.ClearDevice) == [ins.ClearDevice("a")]
    assert "a" not in world.machine.state.devices
    assert world.outcomes["r1", 2] == ["result"]


def test_a_residency_that_comes_before_its_birth_is_asked_for_again() -> None:
    world = world_of("a")
    agent = world.agents["a"]
    before = agent.state("offline")
    world.tell(ev.ForgetAsked("a"))
    agent.boots, agent.connections = agent.boots + 1, agent.connections + 1
    stamp = (world.machine.state.generation, 7)
    world.tell(ev.ResidencySeen("a", Residency(agent.connection, *stamp, (), 0, 0), False))
    world.tell(ev.DeviceStateSeen("a", before, retained=True))
    world.tell(ev.DeviceStateSeen("a", agent.state("online"), retained=False))
    world.run_for(0.05)
    assert device(world).life.state == "alive"
    assert commands(world, cmd.Report)


def test_after_a_reconnect_everything_retained_is_said_again_and_busy_devices_report() -> None:
    world = world_of("a")
    world.agents["a"].compute_s = 5.0
    world.submit(items=1)
    world.run_for(10.0, lambda: bool(world.happened("TaskStarted")))
    world.tell(ev.Disconnected("gone"))
    world.run_for(1.0)
    world.carried_out.clear()
    world.tell(ev.Connected("again"))
    world.run_for(0.2)
    kinds = {type(each) for _, each in world.carried_out}
    assert {ins.PublishState, ins.PublishModel, ins.PublishAssignment, ins.PublishRun} <= kinds
    assert commands(world, cmd.Report)


def test_nothing_is_published_while_disconnected() -> None:
    world = world_of("a", "b", "c")
    world.tell(ev.Disconnected("gone"))
    world.run_for(0.01)
    world.carried_out.clear()
    world.submit(items=2)
    world.run_for(20.0)
    kinds = {type(each) for _, each in world.carried_out}
    assert not kinds & {ins.PublishAssignment, ins.PublishCommands, ins.PublishRun, ins.SendInput}


def test_an_illegal_transition_raises_with_the_history() -> None:
    life = lifecycle_of("item", "r/0", "arrived", 1.0)
    life.move("storing", 2.0, "it came")
    with pytest.raises(IllegalTransition, match=r"storing -> admitted.*arrived at 1\.000.*it came"):
        life.move("admitted", 3.0)


def test_histories_are_bounded() -> None:
    life = lifecycle_of("device", "a", "alive", 0.0)
    for at in range(1000):
        life.move("lost" if at % 2 == 0 else "alive", float(at))
    assert len(life.history) == HISTORY


def test_every_state_named_in_the_table_is_a_row_of_it() -> None:
    for rows in TABLE.values():
        assert {to for row in rows.values() for to in row} <= set(rows)
