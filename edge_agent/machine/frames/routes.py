"""Where an output goes: the dependents of its cut, as the assignment has them.

An empty or missing list parks the output. Filling the list sends what is parked; changing it
resends nothing (section 6, rule 2 of the design).
"""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.held import HeldOutput
from wire.messages.assignment import Assignment


def dependent_of(output: HeldOutput, assignment: Assignment | None) -> str | None:
    """The party that needs it, or None: it is parked."""
    for route in assignment.routes if assignment else ():
        if (route.model, route.exact, route.cut) == output.key and route.dependents:
            return route.dependents[output.name.item % len(route.dependents)]
    return None


def forward(agent: Agent, output: HeldOutput, to: str, now: float) -> None:
    output.life.move("sent", now, to)
    agent.send(output.name, to)


def send_parked(agent: Agent, now: float) -> None:
    """The assignment changed: send what found no dependent before and does now."""
    for output in list(agent.held.outputs.values()):
        if output.life.state == "parked":
            to = dependent_of(output, agent.assignment)
            if to is not None:
                forward(agent, output, to, now)
