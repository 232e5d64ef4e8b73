"""Threads that load segments together: all of it is done, or the first failure is told."""

from __future__ import annotations

import threading

import pytest

from edge_agent.adapters.runtime.worker_pool import WorkerPool

LIMIT_S = 10.0


@pytest.mark.parametrize("helpers", [0, 1, 3])
def test_everything_is_done_once(helpers: int):
    done: list[int] = []
    pool = WorkerPool(helpers)
    pool.run(done.append, range(100))
    pool.run(done.append, range(100, 110))
    pool.close(lambda: None)
    assert sorted(done) == list(range(110))


def test_helpers_work_at_the_same_time_as_the_caller():
    meeting = threading.Barrier(3, timeout=LIMIT_S)
    pool = WorkerPool(2)
    pool.run(lambda _: meeting.wait(), "abc")  # ends only if three are at it together
    pool.close(lambda: None)


def test_the_first_failure_is_raised_when_nobody_works_any_more_and_nothing_more_is_begun():
    begun: list[int] = []
    ended: list[int] = []
    both = threading.Barrier(2, timeout=LIMIT_S)
    failed = threading.Event()

    def work_on(number: int) -> None:
        begun.append(number)
        if number < 2:
            both.wait()
        if number == 0:
            failed.set()
            raise ValueError("the first")
        assert failed.wait(LIMIT_S)
        ended.append(number)

    pool = WorkerPool(1)
    with pytest.raises(ValueError, match="the first"):
        pool.run(work_on, range(10))
    assert 0 in begun
    assert set(begun) == {0, *ended}
    assert len(begun) <= 3
    pool.close(lambda: None)


def test_each_helper_does_a_last_thing_and_ends_and_the_caller_does_it_too():
    names: list[str] = []
    before = threading.active_count()
    pool = WorkerPool(2)
    pool.close(lambda: names.append(threading.current_thread().name))
    assert names == ["loader", "loader", threading.current_thread().name]
    assert threading.active_count() == before
