"""The set of item numbers remembers everything and stays small when it fills from below."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from tests.support.calls import count_calls
from wire.spans import Spans

Numbers = st.lists(st.integers(0, 40))


@given(Numbers)
def test_it_is_a_set(numbers: list[int]):
    spans, known = Spans(), set()
    for number in numbers:
        assert spans.add(number) is (number not in known)
        known.add(number)
        assert len(spans) == len(known)
    assert [number in spans for number in range(-1, 42)] == [n in known for n in range(-1, 42)]
    assert spans.highest == max(known, default=-1)


@given(Numbers)
def test_what_was_added_is_held_as_the_fewest_ranges(numbers: list[int]) -> None:
    ranges = Spans(numbers).ranges()
    assert [i for first, last in ranges for i in range(first, last + 1)] == sorted(set(numbers))
    assert all(a[1] + 1 < b[0] for a, b in itertools.pairwise(ranges))


@given(Numbers, st.integers(0, 40), st.integers(-1, 42))
def test_what_is_lacked_between_two_items_is_found(numbers: list[int], first: int, last: int):
    expected = [item for item in range(first, last + 1) if item not in numbers]
    assert list(Spans(numbers).lacked(first, last)) == expected


def test_what_is_lacked_costs_the_gaps_and_not_the_items():
    few, many = (Spans([*range(1, count), count + 1]) for count in (10, 10_000))
    assert list(many.lacked(0, 10_001)) == [0, 10_000]
    assert count_calls(lambda: list(many.lacked(0, 10_001))) == count_calls(
        lambda: list(few.lacked(0, 11))
    )


@given(st.sets(st.integers(0, 60)))
def test_ranges_make_the_same_spans_and_gaps_are_what_is_missing_below(items: set[int]) -> None:
    spans = Spans(items)
    again = Spans.of_ranges(spans.ranges())
    assert (again.ranges(), len(again)) == (spans.ranges(), len(spans))
    missing = set(range(spans.highest + 1)) - items
    assert {item for first, last in spans.gaps() for item in range(first, last + 1)} == missing


@given(Numbers, Numbers)
def test_what_is_left_without_others_is_held_as_the_fewest_ranges(
    numbers: list[int], others: list[int]
) -> None:
    spans, taken = Spans(numbers), Spans(others)
    left = spans.without(taken)
    assert left.ranges() == Spans(set(numbers) - set(others)).ranges()
    assert len(left) == len(set(numbers) - set(others))
    assert (spans.ranges(), taken.ranges()) == (Spans(numbers).ranges(), Spans(others).ranges())


def test_what_is_left_costs_the_gaps_and_not_the_items():
    few, many = ((Spans(range(count)), Spans([count // 2])) for count in (10, 10_000))
    assert many[0].without(many[1]).ranges() == ((0, 4999), (5001, 9999))
    assert count_calls(lambda: many[0].without(many[1])) == count_calls(
        lambda: few[0].without(few[1])
    )
