"""What a device took for one thing says how long it will take for another, if it is alike."""

from __future__ import annotations

import pytest

from orchestrator.planner.estimates import Estimates

MIB = 1 << 20


def loads(nbytes: int, seconds: float) -> Estimates:
    estimates = Estimates()
    estimates.learn_load("a", nbytes, seconds, nbytes, seconds)
    return estimates


def test_a_tiny_model_says_nothing_about_the_rate_of_large_ones() -> None:
    fresh, after = Estimates(), loads(5_000, 0.8)
    assert after.load_s("a", None, 50 * MIB, 4) == fresh.load_s("a", None, 50 * MIB, 4)
    assert after.fetch_s("a", None, 50 * MIB) == fresh.fetch_s("a", None, 50 * MIB)


def test_a_load_of_some_size_does() -> None:
    after = loads(10 * MIB, 1.0)
    assert after.load_s("a", None, 50 * MIB, 4) == pytest.approx(5.0, abs=0.2)
    assert after.fetch_s("a", None, 50 * MIB) == pytest.approx(5.0, abs=0.2)
