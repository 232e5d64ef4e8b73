"""The set of item numbers remembers everything and stays small when it fills from below."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crowdpipe.client.items import Items


@given(st.lists(st.integers(0, 40)))
def test_it_is_a_set(numbers: list[int]):
    items, known = Items(), set()
    for number in numbers:
        assert items.add(number) is (number not in known)
        known.add(number)
        assert len(items) == len(known)
    assert [number in items for number in range(42)] == [number in known for number in range(42)]


def test_what_fills_from_below_takes_no_room():
    items = Items()
    for number in [*range(1, 1000), 0]:
        items.add(number)
    assert len(items) == 1000
    assert not items._above
