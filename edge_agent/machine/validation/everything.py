"""All checks of one agent, in an order in which the first that fails says most."""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.validation.blobs import check_blobs
from edge_agent.machine.validation.held_frames import check_held_frames
from edge_agent.machine.validation.partitions import check_partitions
from edge_agent.machine.validation.reporting import check_reporting
from edge_agent.machine.validation.slot import check_slot

CHECKS = (check_slot, check_held_frames, check_blobs, check_partitions, check_reporting)


def validate(agent: Agent) -> None:
    """Raises `InvariantBroken`. An agent that ended stays as it was."""
    if not agent.ended:
        for check in CHECKS:
            check(agent)
