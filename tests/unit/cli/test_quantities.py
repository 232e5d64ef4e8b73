import pytest
from hypothesis import given
from hypothesis import strategies as st

from crowdpipe.cli.quantities import (
    counted,
    parse_nbytes,
    parse_shape,
    possible_nbytes,
    show_count,
    show_nbytes,
    show_rate,
    show_seconds,
)
from wire.errors import UserError


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("16MiB", 16 << 20), ("1.5G", 3 << 29), ("300 MB", 300_000_000), ("4096", 4096)],
)
def test_sizes_are_read_with_and_without_units(text: str, nbytes: int) -> None:
    assert parse_nbytes(text) == nbytes


@pytest.mark.parametrize("text", ["", "MiB", "16 parsecs", "-3", "0", "1e9", "12 34"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UserError, match="size"):
        parse_nbytes(text)


def test_one_is_no_plural() -> None:
    assert [counted(n, "model") for n in range(3)] == ["0 models", "1 model", "2 models"]


def test_shapes_are_bounds_by_name() -> None:
    assert parse_shape("batch=1, sequence=512") == {"batch": 1, "sequence": 512}
    assert parse_shape(None) == {}


@pytest.mark.parametrize("text", ["batch", "=3", "batch=0", "batch=x", "batch=1,sequence"])
def test_what_bounds_no_dimension_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="bounds no dimension"):
        parse_shape(text)


@given(st.one_of(st.floats(), st.floats(0, 1e20), st.integers()))
def test_what_is_shown_is_short(number: float) -> None:
    assert len(show_nbytes(number)) <= 12
    assert len(show_seconds(number)) <= 16
    assert len(show_count(number)) <= 14


def test_what_cannot_be_is_a_dash_or_over() -> None:
    assert [show_nbytes(nbytes) for nbytes in (-1, float("nan"), 1e308)] == ["–", "–", "over 1 PiB"]
    assert [show_seconds(s) for s in (-0.1, float("nan"), 1e308)] == ["–", "–", "over 10 years"]
    assert [possible_nbytes(n) for n in (-1, 0, 1 << 50, 1 << 53, None)] == [
        None,
        0,
        1 << 50,
        None,
        None,
    ]


def test_bytes_and_seconds_read_as_people_say_them() -> None:
    assert show_nbytes(3 << 19) == "1.5 MiB"
    assert show_nbytes(None) == "–"
    assert show_seconds(0.0123) == "12 ms"
    assert show_seconds(125.4) == "2 min 5 s"


@pytest.mark.parametrize(
    ("per_s", "shown"), [(155.04, "155/s"), (10.0, "10/s"), (9.87, "9.9/s"), (0.123, "0.12/s")]
)
def test_rates_are_shown_as_people_compare_them(per_s: float, shown: str) -> None:
    assert show_rate(per_s) == shown
