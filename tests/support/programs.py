"""Where the project's own programs and libraries are, for tests that read the source."""

from __future__ import annotations

from pathlib import Path

HOUSE = Path(__file__).parents[2]
PROGRAMS = (
    "wire",
    "bus",
    "model_store",
    "orchestrator",
    "edge_agent",
    "broker_config",
    "crowdpipe",
)
