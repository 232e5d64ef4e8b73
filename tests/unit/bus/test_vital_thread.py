"""A thread that fails is no silence."""

from __future__ import annotations

import pytest

from bus.vital_thread import VitalThread
from wire.errors import CrowdpipeError


def fail() -> None:
    raise OverflowError("too large")


def test_what_ends_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told: list[CrowdpipeError] = []
    thread = VitalThread("journal", fail, told.append)
    thread.start()
    thread.join(10)
    assert "journal" in str(told[0])
    assert "too large" in str(told[0])
    assert "OverflowError" in caplog.text


def test_one_that_is_done_tells_nothing() -> None:
    told: list[CrowdpipeError] = []
    thread = VitalThread("journal", lambda: None, told.append)
    thread.start()
    thread.join(10)
    assert told == []
