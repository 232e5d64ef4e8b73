"""What is remembered and to be said: bounds are kept, and nothing waits unnoticed."""

from __future__ import annotations

from edge_agent.machine.invariants.checks import check, check_equal
from edge_agent.machine.invariants.lifecycles import check_life
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.bounded_dict import BoundedDict


def check_reporting(agent: Agent) -> None:
    check_life(agent.life)
    _check_log(agent)
    memories: tuple[BoundedDict[object, object], ...] = (  # type: ignore[assignment]  # any of them
        agent.finished,
        agent.opened,
        agent.requested_sends,
        agent.cancelled,
    )
    for memory in memories:
        check(len(memory) <= memory.bound, "a memory is larger than its bound")
    check(not (agent.online and agent.queued_sends), "a send waits for a connection that is there")
    held = agent.held.outputs
    check(agent.queued_sends.keys() <= held.keys(), "a send waits of what is not held")
    check(all(agent.queued_sends.values()), "a send waits to nobody")
    _check_assignment(agent)


def _check_log(agent: Agent) -> None:
    log = agent.log
    kept = log.kept
    check(log.acknowledged_seq <= log.last_seq, "an event was acknowledged that never was")
    check_equal(len(log), len(kept), "events in the log")
    check(log.unsent == (log.unsent_since is not None), "events wait without a time")
    check(len(log) <= agent.limits.log_events or log.full, "the log is longer than its bound")


def _check_assignment(agent: Agent) -> None:
    assignment = agent.assignment
    listed = {record.id for record in agent.partitions.listed()}
    assigned = {entry.partition for entry in assignment.partitions} if assignment else set()
    check_equal(listed, assigned, "listed partitions")
    check(agent.generation >= agent.stamp[0], "a generation was not noted")
    for route in assignment.routes if assignment else ():
        known = (route.model, route.exact, route.cut) in agent.dependents
        check(known or not route.dependents, f"dependents of cut {route.cut} are not known")
