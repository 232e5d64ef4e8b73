"""A state that is held to a table, and remembers how it came there."""

from __future__ import annotations

import pytest

from wire.lifecycle import HISTORY, IllegalTransition, Lifecycle

TABLE = {"off": frozenset({"on"}), "on": frozenset({"on", "off"})}


def test_steps_of_the_table_are_taken_and_remembered():
    lamp = Lifecycle("lamp", TABLE, "off")
    lamp.move("on", 1.0, "pressed")
    lamp.move("off", 2.0, "pressed again")
    assert lamp.state == "off"
    assert lamp.history == ((1.0, "on", "pressed"), (2.0, "off", "pressed again"))


def test_another_step_raises_with_the_history_and_changes_nothing():
    lamp = Lifecycle("lamp", TABLE, "off")
    lamp.move("on", 1.0, "pressed")
    lamp.move("off", 2.0, "pressed again")
    with pytest.raises(IllegalTransition) as caught:
        lamp.move("off", 3.0, "a fault")
    assert str(caught.value) == (
        "lamp: off -> off (a fault) is not a step that exists; "
        "before: 1.000 on (pressed), 2.000 off (pressed again)"
    )
    assert lamp.state == "off"


def test_only_so_much_is_remembered():
    lamp = Lifecycle("lamp", TABLE, "on")
    for number in range(100):
        lamp.move("on", float(number), "still")
    assert len(lamp.history) == HISTORY
    assert lamp.history[-1][0] == 99.0
