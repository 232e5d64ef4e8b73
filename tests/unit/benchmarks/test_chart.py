"""Charts are well-formed, hold every point inside their frame, and write round numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.chart import HEIGHT, LEFT, RIGHT, WIDTH, Chart, Line, Mark, ticks

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
