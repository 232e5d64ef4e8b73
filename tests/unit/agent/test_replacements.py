"""An agent whose name another took waits longer each time that it starts, until nobody does."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.adapters.store.replacements import COUNT_LIMIT, FIRST_S, LONGEST_S, Replacements


def test_the_first_start_does_not_wait(tmp_path: Path):
    assert Replacements(tmp_path / "replaced").pause_s == 0.0


def test_each_start_waits_twice_as_long_as_the_one_before_up_to_a_bound(tmp_path: Path):
    pauses = []
    for _ in range(COUNT_LIMIT + 5):
        note = Replacements(tmp_path / "replaced")
        pauses.append(note.pause_s)
        note.add()
    assert pauses[:5] == [0.0, FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]
    assert max(pauses) == pauses[-1] == LONGEST_S


def test_once_nobody_else_has_the_name_it_does_not_wait_any_more(tmp_path: Path):
    note = Replacements(tmp_path / "replaced")
    note.add()
    note.clear()
    assert Replacements(tmp_path / "replaced").pause_s == 0.0
    note.clear()


@pytest.mark.parametrize("written", ["", "many", "-3", "9" * 5000, "1.5", "\N{SUPERSCRIPT TWO}"])
def test_what_it_cannot_read_counts_as_none(tmp_path: Path, written: str):
    (tmp_path / "replaced").write_text(written)
    assert Replacements(tmp_path / "replaced").pause_s == 0.0


def test_a_disk_that_takes_no_note_keeps_nobody_from_going_on(tmp_path: Path):
    note = Replacements(tmp_path / "missing" / "replaced")
    note.add()
    assert note.pause_s == FIRST_S
