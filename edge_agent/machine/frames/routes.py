"""Where an output is sent: to the dependents of its cut in the assignment.

An empty or missing list parks the output. Filling the list sends what is parked; changing it
resends nothing (section 6, rule 2 of the design).
"""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.held_frames import HeldOutput


def dependent_of(agent: Agent, output: HeldOutput) -> str | None:
    """The party that needs it; None if it is to be parked."""
    dependents = agent.dependents.get(output.key)
    return dependents[output.name.item % len(dependents)] if dependents else None


def forward(agent: Agent, output: HeldOutput, to: str, now: float) -> None:
    agent.held.move_output(output, "sent", now, to)
    agent.send(output.name, to)


def send_parked(agent: Agent, now: float) -> None:
    """The assignment changed: send the parked outputs that have a dependent now."""
    for key in [key for key in agent.held.parked if key in agent.dependents]:
        for output in list(agent.held.parked[key].values()):
            to = dependent_of(agent, output)
            assert to is not None
            forward(agent, output, to, now)
