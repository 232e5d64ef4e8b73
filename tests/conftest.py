"""Fixtures that every tier may use, and how much is tried."""

from tests.support.effort import choose_profile

pytest_plugins = ["tests.support.broker", "tests.support.orchestrated"]

choose_profile()
