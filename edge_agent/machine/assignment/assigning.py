"""Taking over an assignment: the highest stamp counts, in whatever order they arrive. One of a
lower generation than we have heard of, in boots before this too, is not taken any more: it may be
an old one that somebody sends again. What is served already stays until the newer desk says more.
"""

from __future__ import annotations

from edge_agent.machine.assignment.fetching import cancel_unlisted
from edge_agent.machine.frames.arrivals import settle_inputs
from edge_agent.machine.frames.routes import send_parked
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import AssignmentArrived
from edge_agent.machine.records.instructions import ObeyAssignment


def assignment_arrived(agent: Agent, event: AssignmentArrived, now: float) -> None:
    assignment = event.assignment
    agent.desk_heard_at = now
    if agent.foreign:
        agent.counts["foreign_orders"] += 1
        return
    if assignment.generation < agent.generation:
        agent.counts["stale_assignments"] += 1
        return
    if agent.assignment is not None and assignment.stamp <= agent.assignment.stamp:
        agent.counts["stale_assignments"] += assignment.stamp < agent.assignment.stamp
        return
    for record in agent.partitions:
        if not record.unfit:
            agent.cache.use(record.blobs, now)
    agent.obey(assignment)
    agent.fetches.forget_failures()
    agent.partitions.list_anew(assignment.partitions, agent.capabilities, now)
    agent.instruct(ObeyAssignment(assignment))
    cancel_unlisted(agent)
    settle_inputs(agent, now)
    send_parked(agent, now)
