"""What a benchmark says of its measurements: spreads, verdicts, turns, hops. Nothing is timed."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import SUBJECTS, chosen
from benchmarks.rounds import shares, take_turns
from benchmarks.row import Rival, at_least, at_most, measured, skipped
from benchmarks.spread import spread
from benchmarks.table import show, table
from wire.errors import UserError

finite = st.floats(-1e9, 1e9)


@given(st.lists(finite, min_size=1, max_size=40))
def test_quartiles_lie_around_the_median_and_within_the_ends(values: list[float]):
    found = spread(values)
    ends = [found.least, found.low, found.median, found.high, found.most]
    assert all(a <= b + 1e-6 for a, b in pairwise(ends))
    assert (found.least, found.most, found.count) == (min(values), max(values), len(values))


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_nothing_and_what_is_not_finite_has_no_spread(values: list[float]):
    with pytest.raises(ValueError, match="no spread"):
        spread(values)


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (at_most(3.0), 3.0, True),
        (at_most(3.0), 3.01, False),
        (at_least(0.8), 0.8, True),
        (at_least(0.8), 0.79, False),
        (None, 1.0, None),
    ],
)
def test_a_row_is_met_missed_or_has_no_target(target, value, met):
    assert measured("a.b", "a thing", [value], "ms", target).met is met


def test_a_row_that_was_not_measured_is_neither_met_nor_missed_and_says_why():
    row = skipped("a.b", "a thing", "ms", "needs root", at_most(1.0))
    plain = row.plain()
    assert (plain["value"], plain["met"], plain["note"]) == (None, None, "needs root")


def test_a_row_in_json_has_all_that_a_reader_needs():
    row = measured("a.b", "a thing", [1.0, 3.0, 2.0], "ms", at_most(5.0), Rival("it", 4.0))
    plain = json.loads(json.dumps(row.plain()))
    assert {"name", "value", "unit", "target", "met", "rival", "spread"} <= set(plain)
    assert (plain["value"], plain["rival"], plain["target"]) == (2.0, 4.0, 5.0)
    assert plain["spread"]["count"] == 3


@given(st.integers(1, 5), st.integers(1, 12))
def test_every_contender_is_measured_once_a_round_and_each_begins_in_turn(
    contenders: int, rounds: int
):
    order: list[int] = []
    made = {str(n): lambda n=n: float(order.append(n) or n) for n in range(contenders)}
    values = take_turns(made, rounds)
    assert values == {str(n): [float(n)] * rounds for n in range(contenders)}
    begins = order[::contenders]
    assert begins == [number % contenders for number in range(rounds)]


def test_shares_are_taken_within_a_round():
    assert shares([1.0, 9.0], [2.0, 3.0]) == [0.5, 3.0]


def test_subjects_run_in_one_order_whatever_order_they_are_asked_for_in():
    assert chosen("latency, throughput") == ("throughput", "latency")
    assert chosen(None) == SUBJECTS


@pytest.mark.parametrize("only", ["speed", "", "latency,speed"])
def test_an_unknown_subject_is_refused_with_those_there_are(only: str):
    with pytest.raises(UserError, match="throughput"):
        chosen(only)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1234.5, "1234"),
        (12.345, "12.3"),
        (1.5, "1.50"),
        (0.8, "0.800"),
        (1e-7, "1e-07"),
    ],
)
def test_numbers_are_shown_with_the_digits_that_count(value: float, text: str):
    assert show(value) == text


def test_the_table_has_a_line_for_every_row():
    rows = [measured("a.b", "one", [1.0], "ms"), skipped("a.c", "two", "ms", "needs root")]
    assert table(rows).row_count == 2
