"""All checks of one agent, in an order in which the first that fails says most."""

from __future__ import annotations

from edge_agent.machine.invariants.blobs import check_blobs
from edge_agent.machine.invariants.held_frames import check_held_frames
from edge_agent.machine.invariants.partitions import check_partitions
from edge_agent.machine.invariants.reporting import check_reporting
from edge_agent.machine.invariants.slot import check_slot
from edge_agent.machine.records.agent import Agent

CHECKS = (check_slot, check_held_frames, check_blobs, check_partitions, check_reporting)


def validate(agent: Agent) -> None:
    """Raises `InvariantBroken`. An agent that ended stays as it was."""
    if not agent.ended:
        for check in CHECKS:
            check(agent)
