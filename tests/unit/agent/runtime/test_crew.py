"""Threads that load segments together: all of it is done, or the first failure is told."""

from __future__ import annotations

import threading

import pytest

from edge_agent.adapters.runtime.crew import Crew

LIMIT_S = 10.0


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_everything_is_done_once(helpers: int):
    done: list[int] = []
    crew = Crew(helpers)
    crew.work(done.append, range(100))
    crew.work(done.append, range(100, 110))
    crew.dismiss(lambda: None)
    assert sorted(done) == list(range(110))


def test_helpers_work_at_the_same_time_as_the_asker():
    meeting = threading.Barrier(3, timeout=LIMIT_S)
    crew = Crew(2)
    crew.work(lambda _: meeting.wait(), "abc")  # ends only if three are at it together
    crew.dismiss(lambda: None)


def test_the_first_failure_is_raised_when_nobody_works_any_more_and_nothing_more_is_begun():
    begun: list[int] = []
    ended: list[int] = []
    both = threading.Barrier(2, timeout=LIMIT_S)
    failed = threading.Event()

    def work(number: int) -> None:
        begun.append(number)
        if number < 2:
            both.wait()
        if number == 0:
            failed.set()
            raise ValueError("the first")
        assert failed.wait(LIMIT_S)
        ended.append(number)

    crew = Crew(1)
    with pytest.raises(ValueError, match="the first"):
        crew.work(work, range(10))
    assert 0 in begun
    assert set(begun) == {0, *ended}
    assert len(begun) <= 3
    crew.dismiss(lambda: None)


def test_each_helper_does_a_last_thing_and_ends_and_the_asker_does_it_too():
    names: list[str] = []
    before = threading.active_count()
    crew = Crew(2)
    crew.dismiss(lambda: names.append(threading.current_thread().name))
    assert names == ["loader", "loader", threading.current_thread().name]
    assert threading.active_count() == before
