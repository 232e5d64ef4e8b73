"""The highest generation of each desk is known to the next start, and never lower."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.adapters.store.obeyed import DESKS_LIMIT, Obeyed


def test_the_next_start_knows_it(tmp_path: Path):
    path = tmp_path / "obeyed"
    Obeyed(path, "desk").remember(7)
    assert Obeyed(path, "desk").generation == 7


def test_it_never_falls(tmp_path: Path):
    obeyed = Obeyed(tmp_path / "obeyed", "desk")
    obeyed.remember(7)
    obeyed.remember(3)
    assert Obeyed(tmp_path / "obeyed", "desk").generation == 7


def test_a_phone_that_goes_to_another_desk_and_back_knows_both(tmp_path: Path):
    path = tmp_path / "obeyed"
    Obeyed(path, "desk").remember(7)
    other = Obeyed(path, "other")
    assert other.generation == 0
    other.remember(2)
    assert (Obeyed(path, "desk").generation, Obeyed(path, "other").generation) == (7, 2)


def test_of_many_desks_the_last_ones_are_known(tmp_path: Path):
    path = tmp_path / "obeyed"
    for number in range(DESKS_LIMIT + 1):
        Obeyed(path, f"desk {number}").remember(1)
    assert Obeyed(path, "desk 0").generation == 0
    assert Obeyed(path, "desk 1").generation == 1


@pytest.mark.parametrize("data", [b"", b"{", b'{"generations": {"desk": -1.5}}', b"x" * 10_000])
def test_a_damaged_file_is_begun_anew(tmp_path: Path, data: bytes):
    path = tmp_path / "obeyed"
    path.write_bytes(data)
    obeyed = Obeyed(path, "desk")
    assert obeyed.generation == 0
    obeyed.remember(4)
    assert Obeyed(path, "desk").generation == 4


def test_a_disk_that_takes_nothing_keeps_nobody_from_serving(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    obeyed = Obeyed(tmp_path / "missing" / "obeyed", "desk")
    obeyed.remember(4)
    assert obeyed.generation == 4
    assert "cannot note which orders are old" in caplog.text
