"""A table-checked lifecycle: legal steps, bounded history with causes, and what is raised."""

from __future__ import annotations

import pytest

from wire.lifecycle import HISTORY, IllegalTransition, Lifecycle

TABLE = {"shut": ("open",), "open": ("shut", "broken"), "broken": ()}


def door(now: float = 0.0) -> Lifecycle:
    return Lifecycle(TABLE, "door", "front", "shut", now)


def test_a_step_of_the_table_is_taken_and_remembered_with_its_cause():
    life = door(1.0)
    life.move("open", 2.5, "the bell")
    assert (life.state, life.since) == ("open", 2.5)
    assert life.history == ((1.0, "shut", ""), (2.5, "open", "the bell"))


def test_a_step_that_the_table_does_not_have_raises_with_the_history():
    life = door(1.0)
    life.move("open", 2.0, "the bell")
    life.move("shut", 3.0)
    with pytest.raises(
        IllegalTransition,
        match=r"door front: shut -> broken \(a kick\).*open at 2\.000 \(the bell\) -> shut at 3\.0",
    ):
        life.move("broken", 4.0, "a kick")
    assert life.state == "shut"


def test_settling_moves_only_where_it_is_not_yet():
    life = door()
    assert life.settle("open", 1.0)
    assert not life.settle("open", 2.0)
    assert life.since == 1.0


def test_the_history_keeps_the_latest_steps_only():
    life = door()
    for at in range(100):
        life.move("open" if life.state == "shut" else "shut", float(at))
    assert [at for at, _, _ in life.history] == [float(at) for at in range(100 - HISTORY, 100)]


def test_a_cause_becomes_text_only_when_a_history_is_told():
    class Event:
        told = 0

        def __str__(self) -> str:
            Event.told += 1
            return "an event"

    life = door()
    life.move("open", 1.0, Event())
    assert Event.told == 0
    assert life.history[-1] == (1.0, "open", "an event")
