"""How long a device with work may be silent: by its work, its link, and what answers took."""

from __future__ import annotations

import pytest

from orchestrator.machine.devices import patience
from orchestrator.machine.records import events as ev
from orchestrator.machine.records.answers import Answers
from orchestrator.machine.records.device import Device
from tests.support.fake_fleet import World
from tests.support.few_devices import commands, device
from tests.support.three_phones import IN_THREE, results, serving, three
from wire.messages import commands as cmd
from wire.messages import events as dev


def at_work(compute_s: float = 0.2, count: int = 4) -> tuple[World, Device]:
    world = three(count, compute_s=compute_s)
    world.submit(items=3, options=IN_THREE)
    world.complete(items=3)
    world.submit(run="r2", items=3, options=IN_THREE)
    world.run_for(5.0, lambda: serving(world, 2).running is not None)
    return world, device(world, serving(world, 2).name)


def test_a_device_that_tells_of_its_work_is_never_asked() -> None:
    world, _ = at_work()
    before = len(commands(world, cmd.Ping))
    world.submit(run="r3", items=30, options=IN_THREE)
    world.complete("r3", items=30)
    assert len(commands(world, cmd.Ping)) == before


def test_a_device_whose_tasks_are_long_may_be_silent_for_longer() -> None:
    world, there = at_work(compute_s=0.2)
    slow_world, slow = at_work(compute_s=2.0)
    assert patience.quiet_s(world.machine.state, there) == pytest.approx(1.0 + 2 * 0.4)
    assert patience.quiet_s(slow_world.machine.state, slow) == pytest.approx(1.0 + 2 * 4.0)


def test_telemetry_alone_bounds_how_long_it_may_be_silent() -> None:
    world, there = at_work(compute_s=3.0)
    for _ in range(9):
        world.machine.state.estimates.learn_task(there.name, next(iter(there.residency)), 1.0, 40.0)
    assert patience.quiet_s(world.machine.state, there) == 12.0


def test_a_device_that_waits_for_long_is_asked_ever_more_rarely() -> None:
    world, there = at_work()
    state = world.machine.state
    there.progress_at = there.engaged_since = state.now - 40.0
    assert patience.quiet_s(state, there) == pytest.approx(5.0)
    there.progress_at = state.now
    assert patience.quiet_s(state, there) < 2.0


def test_slow_answers_of_two_devices_give_all_more_time() -> None:
    """They may wait with us, or with the broker."""
    world, there = at_work()
    state = world.machine.state
    before_s = patience.answer_s(state, there)
    for name in ("x", "y"):
        state.devices.answers.took(name, 2.0, state.now)
    assert patience.answer_s(state, there) == pytest.approx(before_s + 2 * 2.0)


def test_one_slow_answer_says_nothing_of_others() -> None:
    answers = Answers()
    answers.took("x", 29.0, 10.0)
    assert answers.slow_s(10.0) == 0.0


def test_slow_answers_are_forgotten_after_ten_seconds_or_after_a_quick_one() -> None:
    answers = Answers()
    answers.took("x", 3.0, 10.0)
    answers.took("y", 2.0, 15.0)
    assert answers.slow_s(19.0) == 2.0
    assert answers.slow_s(21.0) == 0.0
    answers.took("x", 3.0, 22.0)
    assert answers.slow_s(23.0) == 2.0
    answers.took("y", 0.1, 24.0)
    assert answers.slow_s(24.0) == 0.0


def test_no_more_devices_are_noted_than_it_takes() -> None:
    answers = Answers()
    for number in range(1000):
        answers.took(f"d{number}", 1.0, 10.0)
    assert len(answers._slow) == 16


def test_a_wrong_doubt_doubles_what_is_allowed_twice_at_most() -> None:
    world, there = at_work()
    state, allowed = world.machine.state, []
    for _ in range(5):
        allowed.append(patience.answer_s(state, there))
        there.note_wrong_doubt(state.now)
    assert [each - allowed[0] for each in allowed] == pytest.approx([0.0, 1.5, 4.5, 4.5, 4.5])


def test_a_device_that_was_away_for_a_moment_is_back_with_its_work_done_once() -> None:
    world, there = at_work()
    agent = world.agents[there.name]
    agent.mute, agent.online = True, False
    world.run_for(10.0, lambda: there.life.state == "unproven")
    assert there.life.state == "unproven"
    agent.mute, agent.online = False, True
    agent.beat()
    world.run_for(1.0, lambda: there.life.state == "alive")
    assert there.life.state == "alive"
    assert there.wrong_doubts(world.now) == 1
    world.complete("r2", items=3)
    assert results(world, 3, "r2")


def test_a_device_that_stays_away_is_lost_after_its_lease() -> None:
    world, there = at_work()
    agent = world.agents[there.name]
    agent.mute, agent.online = True, False
    world.run_for(60.0, lambda: there.life.state == "lost")
    assert there.life.state == "lost"
    assert there.wrong_doubts(world.now) == 0


def test_a_run_whose_only_device_stands_still_for_half_a_minute_goes_on_with_it() -> None:
    world = three(1, compute_s=0.1)
    world.submit(items=3)
    agent = world.agents["a"]
    world.run_for(5.0, lambda: agent.running is not None)
    agent.mute, agent.online = True, False
    world.run_for(32.0)
    agent.mute, agent.online = False, True
    agent.beat()
    world.complete(items=3)
    assert results(world, 3)


def test_the_time_for_an_answer_grows_with_what_is_under_way_to_the_device() -> None:
    world, there = at_work()
    state = world.machine.state
    (plan,) = state.plans.values()
    before = patience.answer_s(state, there)
    for item in plan.in_flight.values():
        item.sent[2] = there.name
        item.inputs.pop(2, None)
    coming_s = patience.answer_s(state, there) - before
    transfer_s = state.estimates.transfer_s(
        there.name, there.telemetry, state.estimates.cut_nbytes(plan.manifest, plan.key[1], 2)
    )
    assert coming_s > 0
    assert coming_s <= len(plan.in_flight) * transfer_s + 1e-9


def test_an_answer_after_a_long_absence_says_nothing_of_how_slow_answers_are() -> None:
    world, there = at_work()
    agent, state = world.agents[there.name], world.machine.state
    agent.mute, agent.online = True, False
    world.run_for(10.0, lambda: there.life.state == "unproven")
    world.run_for(20.0)
    agent.mute, agent.online = False, True
    agent.beat()
    agent.say(dev.Pong("1-1", 0.0))
    world.run_for(1.0)
    assert not state.devices.answers._slow
    assert there.wrong_doubts(world.now) == 0


def test_a_look_that_comes_late_asks_again_instead_of_doubting() -> None:
    """We were held up: the answer may wait behind what held us up."""
    world, there = at_work()
    agent = world.agents[there.name]
    agent.mute, agent.online = True, False
    before = len(commands(world, cmd.Ping))
    world.run_for(5.0, lambda: len(commands(world, cmd.Ping)) > before)
    world.machine.handle(ev.Ticked(), there.answer_by + 3.0)
    assert there.life.state == "alive"
