"""After a start nobody waits longer than until those have spoken that served something."""

from __future__ import annotations

import pytest

from orchestrator.machine.records.settling import Settling
from tests.support.fake_fleet import World
from tests.support.three_phones import IN_THREE, results, serving, three


def restarted(silent: bool = False) -> tuple[World, float]:
    """In the midst of a run; and when."""
    world = three(4, compute_s=0.1)
    world.submit(items=8, options=IN_THREE)
    world.run_for(10.0, lambda: len(world.outcomes) >= 2)
    if silent:
        agent = serving(world, 2)
        agent.mute, agent.online = True, False
    began = world.now
    world.start_orchestrator()
    return world, began


def test_work_goes_on_as_soon_as_all_that_served_have_spoken() -> None:
    world, began = restarted()
    before = len(world.outcomes)
    world.run_for(10.0, lambda: len(world.outcomes) > before)
    assert world.now - began < 1.0
    world.complete(items=8)
    assert results(world, 8)


def test_one_that_does_not_speak_is_waited_for_as_long_as_before() -> None:
    world, _ = restarted(silent=True)
    settling = world.machine.state.settling
    assert list(settling.awaited)
    assert settling.until == pytest.approx(world.now + world.options.settle_s, abs=0.1)
    world.complete(items=8, limit_s=90.0)
    assert results(world, 8)


def test_it_ends_when_the_last_has_answered_and_not_before_the_broker_has_told_all() -> None:
    settling = Settling()
    settling.begin(10.0, 2.0)
    settling.wait_for("a", 10.01)
    assert settling.answered("a", 10.02)
    assert settling.until == pytest.approx(10.3)
    settling.wait_for("b", 10.1)
    assert settling.until == pytest.approx(12.0)
    assert settling.answered("b", 11.0)
    assert settling.until == pytest.approx(11.0)


def test_who_answered_before_it_was_asked_for_is_not_waited_for() -> None:
    settling = Settling()
    settling.begin(10.0, 2.0)
    assert not settling.answered("a", 10.01)
    settling.wait_for("a", 10.02)
    assert not list(settling.awaited)


def test_nothing_is_noted_once_it_is_over() -> None:
    settling = Settling()
    settling.begin(10.0, 2.0)
    settling.wait_for("a", 12.5)
    assert not list(settling.awaited)
    assert not settling.answered("a", 12.5)
