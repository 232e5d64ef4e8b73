"""The models that the `onnx` package ships stay exact wherever they are cut, or are refused.

A fifth of the operators' models, all stored ones and two vision networks; all of them, some eight
minutes, if CROWDPIPE_TEST_ALL_BACKEND is set.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from collections.abc import Iterable

import pytest

from tests.support.backend_cases import (
    BackendCase,
    Outcome,
    light_cases,
    node_cases,
    stored_cases,
    try_everywhere,
)
from tests.support.effort import NIGHTLY

ALL = NIGHTLY or bool(os.environ.get("CROWDPIPE_TEST_ALL_BACKEND"))
EVERY = 1 if ALL else 5
PARTS = 8  # so that several can be tried side by side
LIGHT_IN_SHORT = ("light/light_squeezenet", "light/light_shufflenet")
REFUSALS = re.compile(
    r"is no tensor|ONNX Runtime \S+ has no (operator|kernel)|an input is a sequence"
)


def outcomes(cases: Iterable[BackendCase]) -> dict[str, Outcome]:
    return {case.name: try_everywhere(case) for case in cases}


def check(found: dict[str, Outcome]) -> Counter[str]:
    """How many of each verdict; fails for a difference, or a refusal of another kind."""
    told = {name: one for name, one in found.items() if one.verdict == "different"}
    assert not told
    for name, one in found.items():
        assert one.verdict != "refused" or REFUSALS.search(one.reason), (name, one)
    return Counter(one.verdict for one in found.values())


def in_part(case: BackendCase, part: int) -> bool:
    number = zlib.crc32(case.name.encode())
    return number % EVERY == 0 and number // EVERY % PARTS == part


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_operators_stay_exact_wherever_they_are_cut(part: int) -> None:
    found = outcomes(case for case in node_cases() if in_part(case, part))
    counts = check(found)
    print(counts, sum(one.ways for one in found.values()), "ways to cut")
    assert counts.total() > 1200 / EVERY / PARTS
    assert counts["exact"] > 0.75 * counts.total()
    assert counts["unsupported"] < 0.02 * counts.total() + 3


def test_stored_networks_stay_exact_wherever_they_are_cut() -> None:
    counts = check(outcomes(stored_cases()))
    assert counts["exact"] >= 100


@pytest.mark.timeout(900)
def test_vision_networks_stay_exact_in_twenty_random_ways() -> None:
    found = outcomes(case for case in light_cases() if ALL or case.name in LIGHT_IN_SHORT)
    assert check(found) == {"exact": len(found)}
    assert all(one.ways >= 20 for one in found.values())
