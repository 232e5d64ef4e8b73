"""What a client may announce at most, where it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wire.errors import Malformed, TooLarge
from wire.messages.requests import (
    ACKNOWLEDGED_COUNT,
    NAME_LENGTH,
    RENEWED_COUNT,
    REQUEST_NBYTES,
    AcknowledgeResults,
    Renew,
    Request,
)
from wire.record import decode, encode

LONG = "a" * (NAME_LENGTH + 1)


@pytest.mark.parametrize(
    "plain",
    [
        {"type": "submit", "run": LONG, "model": "toy"},
        {"type": "submit", "run": "r", "model": LONG},
        {"type": "submit", "run": "r", "model": "toy", "options": {"policy": LONG}},
        {"type": "finish", "run": LONG, "count": 1},
        {"type": "cancel_run", "run": LONG},
        {"type": "acknowledge_results", "run": LONG, "items": []},
        {"type": "acknowledge_results", "run": "r", "items": [0] * (ACKNOWLEDGED_COUNT + 1)},
        {"type": "resume", "run": LONG},
        {"type": "renew", "runs": [LONG]},
        {"type": "renew", "runs": ["r"] * (RENEWED_COUNT + 1)},
        {"type": "request_plan", "request": LONG, "model": "toy"},
        {"type": "request_plan", "request": "q", "model": LONG},
    ],
    ids=lambda plain: f"{plain['type']} {next(reversed(plain))}",
)
def test_what_is_longer_than_it_may_be_is_no_request(plain: dict[str, Any]) -> None:
    with pytest.raises(Malformed, match=r"at most|not allowed"):
        decode(Request, json.dumps(plain).encode(), REQUEST_NBYTES)


def test_a_request_of_megabytes_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(TooLarge):
        decode(Request, b" " * (REQUEST_NBYTES + 1), REQUEST_NBYTES)


def test_the_longest_lists_fit_a_request() -> None:
    for request in (
        AcknowledgeResults("r" * 32, tuple(range(999_999, 999_999 - ACKNOWLEDGED_COUNT, -1))),
        Renew(("r" * 32,) * RENEWED_COUNT),
    ):
        assert decode(Request, encode(request), REQUEST_NBYTES) == request
