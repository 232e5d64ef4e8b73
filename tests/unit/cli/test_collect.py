"""How the results of a run that is collected are laid out, and what is said if not as asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crowdpipe.cli import collect, console
from crowdpipe.client import session
from crowdpipe.items_file import read_arrays
from wire.broker_url import parse_url
from wire.errors import CrowdpipeError, InvalidInput
from wire.messages.progress import RunProgress

URL = parse_url("mqtt://me:x@127.0.0.1:1")
Outcome = list[np.ndarray[Any, Any]] | CrowdpipeError
Collecting = Callable[[int | None, dict[int, Outcome]], list[str]]
FAILED = InvalidInput("its client went before the input was here")


class Session:
    """Has these outcomes of one run, of a model with one output."""

    def __init__(self, outcomes: dict[int, Outcome], had: int = 0) -> None:
        self.outcomes, self.had = outcomes, had

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is open."""

    def __len__(self) -> int:
        return len(self.outcomes)

    def __iter__(self) -> Iterator[tuple[int, Outcome]]:
        return iter(self.outcomes.items())

    def get_outputs(self) -> list[Any]:
        return [type("Spec", (), {"name": "y"})]

    def collect(self, _run: str) -> Session:
        return self


def result(width: int = 2) -> Outcome:
    return [np.zeros(width)]


@pytest.fixture
def in_one_array(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Collecting:
    """Collects with `--batch` a run of so many items as is known; what is said."""

    def collecting(count: int | None, outcomes: dict[int, Outcome]) -> list[str]:
        said: list[str] = []
        monkeypatch.setattr(console, "say", said.append)
        monkeypatch.setattr(session, "Session", lambda *_, **__: Session(outcomes))
        told = RunProgress("r1", "m", "done", False, False, "auto", count, 3, 3, 3, 0, 0.5)
        collect._collect(told, URL, 10.0, tmp_path / "out.npz", batch=True)
        return said

    return collecting


def test_all_results_of_a_run_are_one_array_and_nothing_is_said(
    in_one_array: Collecting, tmp_path: Path
) -> None:
    assert in_one_array(3, {item: result() for item in (2, 0, 1)}) == []
    assert read_arrays(tmp_path / "out.npz")["y"].shape == (3, 2)


@pytest.mark.parametrize(
    ("count", "outcomes", "why"),
    [
        (3, {0: result(), 1: FAILED, 2: result()}, "1 of the items failed"),
        (None, {0: result(), 1: result()}, "How many items the run has was not known"),
        (3, {1: result(), 2: result()}, "2 of the run's 3 items were still to be collected"),
        (2, {0: result(2), 1: result(3)}, "The results differ in shape"),
    ],
)
def test_results_that_cannot_be_one_array_are_numbered_and_that_is_said(
    in_one_array: Collecting,
    tmp_path: Path,
    count: int | None,
    outcomes: dict[int, Outcome],
    why: str,
) -> None:
    *_, said = in_one_array(count, outcomes)
    assert said.startswith(why)
    assert said.endswith("so results are numbered: 0/NAME, …")
    there = [f"{item}/y" for item, outcome in outcomes.items() if outcome is not FAILED]
    assert sorted(read_arrays(tmp_path / "out.npz")) == there


@pytest.mark.parametrize(
    ("count", "had", "came", "told"),
    [
        (200, 0, 200, []),
        (None, 0, 7, []),
        (200, 10, 190, [f"10 of 200 {collect.GIVEN_BEFORE}"]),
        (None, 3, 7, [f"3 of 10 {collect.GIVEN_BEFORE}"]),
        (200, 10, 50, [f"10 of 200 {collect.GIVEN_BEFORE}", f"140 of 200 {collect.NEVER_SENT}"]),
    ],
)
def test_what_of_the_run_is_not_in_the_file_is_said(
    count: int | None, had: int, came: int, told: list[str]
) -> None:
    assert collect.absent(count, had, came) == told


def test_how_many_another_client_had_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []
    outcomes = {item: result() for item in range(10, 200)}
    monkeypatch.setattr(console, "say", said.append)
    monkeypatch.setattr(session, "Session", lambda *_, **__: Session(outcomes, had=10))
    told = RunProgress("r1", "m", "done", False, False, "auto", 200, 200, 200, 200, 0, 0.5)
    collect._collect(told, URL, 10.0, tmp_path / "out.npz", batch=False)
    assert said == ["10 of 200 were given to another client before and are not in this file"]


def test_results_that_cannot_be_written_are_kept_and_the_error_says_how_to_get_them(
    in_one_array: Collecting, tmp_path: Path
) -> None:
    (tmp_path / "out.npz").mkdir()
    with pytest.raises(CrowdpipeError, match=r"kept: crowdpipe collect r1 -o FILE\.npz") as told:
        in_one_array(1, {0: result()})
    assert "cannot write" in str(told.value)
