"""The header `Range`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.ranges import ByteRange, parse_range
from wire.errors import OutOfRange


@pytest.mark.parametrize(
    ("header", "start", "stop"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=2-", 2, 10),
        ("bytes=2-99", 2, 10),
        ("bytes=-3", 7, 10),
        ("bytes=-99", 0, 10),
        ("bytes= 1 - 2", 1, 3),
    ],
)
def test_a_range_is_read_as_the_standard_says(header: str, start: int, stop: int):
    assert parse_range(header, 10) == ByteRange(start, stop)


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=10-12", "bytes=-0"])
def test_a_range_outside_is_refused(header: str):
    with pytest.raises(OutOfRange):
        parse_range(header, 10)


@pytest.mark.parametrize(
    "header",
    [None, "", "bytes=-", "bytes=5-2", "items=0-1", "bytes=0-1,3-4", "bytes=a-b", "bytes=٣-"],
)
def test_a_range_that_cannot_be_read_means_everything(header: str | None):
    assert parse_range(header, 10) is None


@given(st.text(), st.integers(0, 1 << 40))
def test_no_text_gives_a_range_outside_of_the_content(text: str, nbytes: int):
    for header in (text, "bytes=" + text):
        try:
            part = parse_range(header, nbytes)
        except OutOfRange:
            continue
        assert part is None or 0 <= part.start < part.stop <= nbytes
