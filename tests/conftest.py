"""Fixtures that every tier may use."""

pytest_plugins = ["tests.support.broker", "tests.support.orchestrated"]
