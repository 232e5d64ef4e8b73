"""When the next read waits so that more comes, and that it does not for what is urgent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.gathering import PAUSE_S, ROW_COUNT, ROW_S, Gathering


def telemetry(topic: str) -> bool:
    return topic == "telemetry"


def stream(gathering: Gathering, count: int, every_s: float, begin: float = 100.0) -> float:
    """So many that may wait, each read as it comes; when the last was."""
    now = begin
    for _ in range(count):
        now += every_s
        gathering.came("telemetry")
        gathering.read(now)
    return now


def test_while_many_come_that_may_wait_the_next_read_does() -> None:
    gathering = Gathering(telemetry)
    now = stream(gathering, 10 * ROW_COUNT, every_s=0.001)
    assert gathering.pause_s(now) == pytest.approx(PAUSE_S)
    assert gathering.pause_s(now + 2 * PAUSE_S) == 0


def test_what_comes_in_bursts_while_reads_wait_goes_on_being_gathered() -> None:
    gathering = Gathering(telemetry)
    now = stream(gathering, 10 * ROW_COUNT, every_s=0.001)
    for _ in range(50):
        now += PAUSE_S
        for _ in range(20):
            gathering.came("telemetry")
        gathering.read(now)
        assert gathering.pause_s(now) > 0


def test_what_a_broker_had_kept_is_read_as_it_comes() -> None:
    gathering, now = Gathering(telemetry), 100.0
    for _ in range(10 * ROW_COUNT):
        now += 0.001
        gathering.came("telemetry", retained=True)
        gathering.read(now)
        assert gathering.pause_s(now) == 0


def test_a_few_that_may_wait_are_read_as_they_come() -> None:
    gathering = Gathering(telemetry)
    now = stream(gathering, 1_000, every_s=2 * ROW_S / ROW_COUNT)
    assert gathering.pause_s(now) == 0


def test_what_may_not_wait_ends_it_at_once() -> None:
    gathering = Gathering(telemetry)
    now = stream(gathering, 10 * ROW_COUNT, every_s=0.001)
    gathering.came("events")
    gathering.read(now + PAUSE_S)
    assert gathering.pause_s(now + PAUSE_S) == 0


def test_after_a_silence_the_first_is_read_and_what_follows_it_too() -> None:
    gathering = Gathering(telemetry)
    now = stream(gathering, 10 * ROW_COUNT, every_s=0.001) + 30.0
    gathering.came("telemetry")
    gathering.read(now)
    gathering.came("telemetry")
    gathering.read(now + 2 * ROW_S)
    assert gathering.pause_s(now + 2 * ROW_S) == 0


def test_a_new_connection_knows_nothing_of_the_last() -> None:
    gathering = Gathering(telemetry)
    now = stream(gathering, 10 * ROW_COUNT, every_s=0.001)
    gathering.restart()
    gathering.came("telemetry")
    gathering.read(now)
    assert gathering.pause_s(now) == 0


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 0.05)), max_size=300))
def test_nothing_is_ever_late_by_more_than_a_moment(steps: list[tuple[bool, float]]) -> None:
    gathering, now = Gathering(telemetry), 100.0
    for patient, pause_s in steps:
        now += pause_s
        gathering.came("telemetry" if patient else "requests")
        gathering.read(now)
        assert gathering.pause_s(now) <= (PAUSE_S if patient else 0)


def test_where_nothing_may_wait_nothing_does() -> None:
    gathering = Gathering(None)
    assert gathering.pause_s(stream(gathering, 1_000, every_s=0.0)) == 0
