"""Without a terminal, a run is shown in plain lines: what happens at once, counts seldom."""

from __future__ import annotations

import pytest

from crowdpipe.cli.run_view import RunView


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_counts_are_told_every_few_seconds_with_the_rate_of_late(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with RunView("running", clock).of(60) as view:
        for done in range(1, 61):
            clock.now += 0.5
            view.so_far(done)
    told = lines(capsys)
    assert told[0] == "running: 60 items"
    assert told[1] == "10 of 60 items, 2.0 a second"
    assert told[-1] == "60 of 60 items, 2.0 a second"
    assert len(told) == 7


def test_what_it_waits_for_is_told_at_once_and_once_that_it_goes_on(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with RunView("running", clock).of(2) as view:
        view.wait("no device is online")
        clock.now += 100.0
        view.wait("")
        view.wait("")
        view.so_far(1)
        view.happen("phone3 lost, partition 2 moved to phone5")
    assert lines(capsys) == [
        "running: 2 items",
        "Waiting: no device is online",
        "It goes on.",
        "phone3 lost, partition 2 moved to phone5",
    ]


def test_the_rate_says_nothing_of_the_time_before_it_went_on(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with RunView("running", clock).of(100) as view:
        view.so_far(1)
        view.wait("no device is online")
        clock.now += 100.0
        view.wait("")
        for done in range(2, 32):
            clock.now += 0.2
            view.so_far(done)
    assert lines(capsys)[-1].endswith(", 5.0 a second")


def test_names_in_brackets_are_no_colours(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    view = RunView("running", clock)
    view.happen("input [batch, 3] and a sentence that is " + "very " * 60 + "long")
    (told,) = lines(capsys)
    assert told.startswith("input [batch, 3]")
