"""How much is tried.

Everywhere else each run tries the same cases, so that what passed on one machine passes on the
next. The nightly form (`scripts/test --nightly`, or CROWDPIPE_NIGHTLY=1) tries many more, and
others each time; what it finds becomes a case of its own.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

NIGHTLY = bool(os.environ.get("CROWDPIPE_NIGHTLY"))
NIGHTLY_FACTOR = 25


def schedules(count: int, steps: int) -> settings:
    """For a machine of rules: so many random schedules, in the nightly form 25 times as many."""
    return settings(
        max_examples=count * (NIGHTLY_FACTOR if NIGHTLY else 1),
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def limit(seconds: int) -> pytest.MarkDecorator:
    """Ends a test of many schedules after so long, with room to shrink what was found."""
    return pytest.mark.timeout(seconds * (NIGHTLY_FACTOR if NIGHTLY else 1))


def choose_profile() -> None:
    """Before any test module is read. No example has a deadline: a busy machine is no fault."""
    settings.register_profile(
        "the same cases each time", derandomize=True, print_blob=True, deadline=None
    )
    settings.register_profile("others each time", print_blob=True, deadline=None)
    settings.load_profile("others each time" if NIGHTLY else "the same cases each time")
