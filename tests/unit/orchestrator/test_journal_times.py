"""What segments took on devices stays in the journal, the newest of each, until it is forgotten."""

from __future__ import annotations

from pathlib import Path

from orchestrator.adapters.journal import Journal

OLD = ("model-a", False, "phone", 0, 0.5)
NEW = ("model-a", False, "phone", 0, 0.7)
OTHER = ("model-a", True, "tablet", 0, 0.1)
ELSEWHERE = ("model-b", False, "tablet", 3, 0.2)


def kept(tmp_path: Path, journal: Journal) -> set[tuple[object, ...]]:
    journal.close()
    again = Journal(tmp_path / "journal.sqlite")
    try:
        return set(again.times())
    finally:
        again.close()


def stored(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "journal.sqlite")
    journal.store_times([OLD, OTHER])
    journal.store_times([NEW, ELSEWHERE])
    return journal


def test_the_newest_time_of_each_segment_on_each_device_is_there_after_a_restart(
    tmp_path: Path,
) -> None:
    assert kept(tmp_path, stored(tmp_path)) == {NEW, OTHER, ELSEWHERE}


def test_a_removed_model_takes_its_times_with_it(tmp_path: Path) -> None:
    journal = stored(tmp_path)
    journal.forget_times("model-a", None)
    assert kept(tmp_path, journal) == {ELSEWHERE}


def test_a_forgotten_device_takes_its_times_with_it(tmp_path: Path) -> None:
    journal = stored(tmp_path)
    journal.forget_times(None, "tablet")
    assert kept(tmp_path, journal) == {NEW}
