"""Crowds of two sizes, few and many of one thing, between which an event is to cost the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.event_crowd import RANKED_SIZES, SIZES, Crowd, crowds_of


@pytest.fixture(scope="module", params=SIZES)
def crowds(request: pytest.FixtureRequest) -> Iterator[tuple[Crowd, Crowd]]:
    yield from crowds_of(SIZES[request.param])


@pytest.fixture(scope="module", params=RANKED_SIZES)
def ranked(request: pytest.FixtureRequest) -> Iterator[tuple[Crowd, Crowd]]:
    yield from crowds_of(RANKED_SIZES[request.param])
