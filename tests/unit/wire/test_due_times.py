"""Due times: the next of many, times that move, and a heap that does not keep what is over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wire.due_times import NEVER, SLACK, DueTimes


def test_what_is_due_comes_out_earliest_first_and_once() -> None:
    due: DueTimes[str] = DueTimes()
    for key, at in (("c", 3.0), ("a", 1.0), ("b", 1.0), ("late", 9.0)):
        due.set(key, at)
    assert due.take(3.0) == ["a", "b", "c"]
    assert due.take(3.0) == []
    assert due.next_at() == 9.0


def test_a_time_may_move_both_ways_and_go() -> None:
    due: DueTimes[str] = DueTimes()
    due.set("a", 5.0)
    due.set("a", 7.0)
    assert due.take(6.0) == []
    due.set("a", 2.0)
    assert due.next_at() == 2.0
    due.set("a", NEVER)
    assert (due.next_at(), len(due)) == (NEVER, 0)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from("stdn"))))
def test_it_agrees_with_a_plain_dictionary(steps: list[tuple[int, int, str]]) -> None:
    due: DueTimes[int] = DueTimes()
    plain: dict[int, float] = {}
    for key, at, what in steps:
        if what == "s":
            due.set(key, at)
            plain[key] = at
        elif what == "d":
            due.discard(key)
            plain.pop(key, None)
        elif what == "t":
            expected = {key for key, time in plain.items() if time <= at}
            taken = due.take(at)
            assert set(taken) == expected
            times = [plain.pop(key) for key in taken]
            assert times == sorted(times)
        assert due.next_at() == min(plain.values(), default=NEVER)
        assert len(due) == len(plain)


def test_entries_that_are_over_do_not_pile_up() -> None:
    due: DueTimes[int] = DueTimes()
    for at in range(10_000, 0, -1):
        due.set(0, float(at))
    assert len(due._heap) <= 3 + SLACK
