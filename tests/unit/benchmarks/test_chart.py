"""Charts are well-formed, hold every point inside their frame, and write round numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chart import HEIGHT, LEFT, RIGHT, WIDTH, Chart, Line, Mark, decades, ticks

SVG = "{http://www.w3.org/2000/svg}"
points = st.lists(
    st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=30
).map(lambda pairs: tuple(sorted(pairs)))


def drawn(chart: Chart) -> ElementTree.Element:
    return ElementTree.fromstring(chart.svg())


@given(points, points)
def test_every_point_is_inside_the_frame(first, second):
    chart = Chart("t", "x", "y", (Line("one", first), Line("two", second)), (Mark("m", 3.0),))
    ways = [each.attrib["points"] for each in drawn(chart).iter(f"{SVG}polyline")]
    assert len(ways) == 2
    for pair in " ".join(ways).split():
        x, y = map(float, pair.split(","))
        assert LEFT - 0.1 <= x <= WIDTH - RIGHT + 0.1
        assert 0 <= y <= HEIGHT


def test_names_that_look_like_markup_are_only_text():
    chart = Chart("<t> & co", "x", "y", (Line("<b>", ((0.0, 1.0), (1.0, 2.0))),))
    texts = [each.text for each in drawn(chart).iter(f"{SVG}text")]
    assert "<t> & co" in texts
    assert "<b>" in texts


def test_counted_things_have_whole_numbers_only():
    assert [text for _, text in ticks(1.0, 5.0, 1.0)] == ["1", "2", "3", "4", "5"]


TENTHS = ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
TENS = ["20", "30", "40", "50", "60"]


@pytest.mark.parametrize(("least", "most", "texts"), [(0.0, 1.0, TENTHS), (12.0, 68.0, TENS)])
def test_ticks_are_round_and_within_the_range(least: float, most: float, texts: list[str]):
    found = ticks(least, most)
    assert all(least <= value <= most for value, _ in found)
    assert [text for _, text in found] == texts


above_zero = st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6)), min_size=1).map(
    lambda pairs: tuple(sorted(pairs))
)


@given(above_zero)
def test_a_logarithmic_chart_keeps_every_point_inside_its_frame(found):
    chart = Chart("t", "x", "y", (Line("one", found, dots=True),), (), logarithmic=True)
    for dot in drawn(chart).iter(f"{SVG}circle"):
        assert LEFT - 0.1 <= float(dot.attrib["cx"]) <= WIDTH - RIGHT + 0.1
        assert 0 <= float(dot.attrib["cy"]) <= HEIGHT


def test_what_grows_in_proportion_is_straight_where_axes_are_logarithmic():
    straight = Line("s", ((10.0, 1.0), (100.0, 10.0), (1000.0, 100.0)), dashed=True)
    (way,) = drawn(Chart("t", "x", "y", (straight,), logarithmic=True)).iter(f"{SVG}polyline")
    xs, ys = zip(
        *(map(float, pair.split(",")) for pair in way.attrib["points"].split()), strict=True
    )
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert ys[1] - ys[0] == pytest.approx(ys[2] - ys[1], abs=0.2)
    assert way.attrib["stroke-dasharray"]


@pytest.mark.parametrize(
    ("least", "most", "texts"),
    [
        (1.0, 4.0, ["10", "100", "1,000", "10,000"]),
        (-1.2, 0.5, ["0.1", "0.2", "0.5", "1", "2"]),
        (-2.0, 1.0, ["0.01", "0.1", "1", "10"]),
    ],
)
def test_logarithmic_axes_have_powers_of_ten_and_more_where_these_are_few(least, most, texts):
    assert [text for _, text in decades(least, most)] == texts
