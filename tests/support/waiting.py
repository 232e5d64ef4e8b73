"""Waiting for what another thread or program does, where it has no event to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")
LOOK_EVERY_S = 0.05


def wait_until(found: Callable[[], Found], what: str, limit_s: float = 60.0) -> Found:
    """What `found` gives, as soon as it is true; fails with `what` after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not (value := found()):
        assert time.monotonic() < deadline, f"waited {limit_s:g} s for {what}"
        time.sleep(LOOK_EVERY_S)
    return value
