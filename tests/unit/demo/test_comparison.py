import math

import numpy as np
import pytest

from crowdpipe.demo.comparison import compare, difference, hash_of


def result(*values: float, dtype: str = "float32") -> dict[str, np.ndarray]:
    return {"y": np.array(values, dtype)}


def test_equal_results_do_not_differ() -> None:
    found = compare([result(1, 2)], [result(1, 2)])
    assert found.max_rel_diff == 0
    assert found.identical


def test_the_difference_is_relative_to_the_largest_value_but_at_least_one() -> None:
    assert difference(result(100.5), result(100.0)) == pytest.approx(0.005)
    assert difference(result(0.001), result(0.0)) == pytest.approx(0.001)


def test_one_changed_bit_is_not_identical() -> None:
    changed = np.nextafter(np.float32(1), np.float32(2))
    found = compare([result(float(changed))], [result(1)])
    assert not found.identical
    assert 0 < found.max_rel_diff < 1e-6


def test_a_negative_zero_is_not_identical_to_zero_but_does_not_differ() -> None:
    assert difference(result(-0.0), result(0.0)) == 0
    assert hash_of(result(-0.0)) != hash_of(result(0.0))


@pytest.mark.parametrize(
    "ours",
    [
        {"z": np.zeros(1, "float32")},
        {"y": np.zeros(1, "float64")},
        {"y": np.zeros(2, "float32")},
        {"y": np.array([math.nan], "float32")},
        {"y": np.array([math.inf], "float32")},
    ],
)
def test_what_cannot_be_compared_differs_infinitely(ours: dict[str, np.ndarray]) -> None:
    assert difference(ours, {"y": np.zeros(1, "float32")}) == math.inf


def test_nan_and_infinities_in_the_same_places_are_equal() -> None:
    assert difference(result(math.nan, math.inf, 1), result(math.nan, math.inf, 1)) == 0
    assert difference(result(math.inf), result(-math.inf)) == math.inf


def test_integers_and_text_must_be_the_same() -> None:
    assert difference(result(1, 2, dtype="int64"), result(1, 3, dtype="int64")) == math.inf
    words = {"y": np.array(["a", "b"], object)}
    assert difference(words, {"y": np.array(["a", "b"], object)}) == 0
    assert difference(words, {"y": np.array(["a", "c"], object)}) == math.inf


def test_missing_results_are_counted_not_compared() -> None:
    found = compare([None, result(1)], [result(5), result(1)])
    assert found.compared == 1
    assert found.identical
