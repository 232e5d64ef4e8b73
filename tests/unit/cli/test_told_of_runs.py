"""What the commands about runs and agents say, without a broker."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from crowdpipe.cli import agent
from crowdpipe.cli.run import without_first_axis
from crowdpipe.cli.runs import done_of
from crowdpipe.cli.watch import shortened
from crowdpipe.items_file import read_arrays, write_items
from wire.messages.progress import RunProgress

DIGEST = "0123456789abcdef" * 4


def progress(count: int | None, done: int, failed: int) -> RunProgress:
    return RunProgress("r1", "m", "running", False, False, "auto", count, 3, 3, done, failed, 0.5)


@pytest.mark.parametrize(
    ("count", "done", "failed", "told"),
    [(60, 3, 0, "3/60"), (None, 3, 0, "3/?"), (60, 3, 1, "4/60, 1 failed")],
)
def test_how_far_a_run_has_come(count: int | None, done: int, failed: int, told: str) -> None:
    assert done_of(progress(count, done, failed)) == told


def test_digests_are_shortened_for_people_and_other_numbers_are_not() -> None:
    text = f'{{"digest": "{DIGEST}", "run": "0123456789abcdef", "nbytes": 90298102}}'
    assert shortened(text) == text.replace(DIGEST, "01234567…")


def test_batch_says_what_each_item_is_without_its_first_axis() -> None:
    arrays = {"ids": np.zeros((6, 1, 12)), "mask": np.zeros(6)}
    told = without_first_axis(arrays, 6)
    assert told == "--batch took the first axis off: 6 items, each with ids [1, 12], mask []"


def test_results_of_some_items_keep_their_numbers(tmp_path: Path) -> None:
    results = [{"y": np.full(2, item)} for item in (3, 7)]
    assert write_items(tmp_path / "out.npz", "numbered", results, [3, 7])
    found = read_arrays(tmp_path / "out.npz")
    assert sorted(found) == ["3/y", "7/y"]
    assert found["7/y"][0] == 7


@pytest.mark.parametrize(
    ("home", "set_apart", "expected"),
    [("home", False, "home/agents/a1"), (None, False, None), ("home", True, None)],
)
def test_an_agents_cache_is_in_the_home_if_one_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    home: str | None,
    set_apart: bool,
    expected: str | None,
) -> None:
    monkeypatch.setattr(os, "environ", {agent.CACHE_VARIABLE: "/x"} if set_apart else {})
    flags: list[str] = []
    monkeypatch.setattr(os, "execv", lambda program, arguments: flags.extend(arguments))
    folder = tmp_path / home if home else None
    agent.agent("a1", "mqtt://h", None, None, "info", folder)
    found = flags[flags.index("--cache") + 1] if "--cache" in flags else None
    assert found == (str(tmp_path / expected) if expected else None)
