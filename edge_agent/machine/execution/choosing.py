"""What the one slot in memory does next: small rules in order, the first that decides wins.

Deepest first keeps few items in flight: what is nearest to the result is finished before anything
new is begun.
"""

from __future__ import annotations

from collections.abc import Callable

from edge_agent.machine.execution.loading import load, unload
from edge_agent.machine.execution.tasks import start
from edge_agent.machine.frames import room
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.instructions import Execute, Load, Unload

Choice = Load | Unload | Execute
Rest = tuple[()]  # decided: nothing, for now
REST: Rest = ()
Rule = Callable[[Agent, float], Choice | Rest | None]


def choose(agent: Agent, now: float) -> None:
    for rule in RULES:
        choice = rule(agent, now)
        if isinstance(choice, (Load, Unload, Execute)):
            agent.instruct(choice)
        if choice is not None:
            return


def what_is_under_way_ends_first(agent: Agent, now: float) -> Rest | None:
    return REST if agent.slot.busy else None


def a_stopping_agent_starts_nothing(agent: Agent, now: float) -> Rest | None:
    return REST if agent.stopping else None


def what_is_not_listed_leaves(agent: Agent, now: float) -> Unload | None:
    occupant, record = agent.slot.occupant, agent.occupant()
    if occupant is None:
        return None
    if record is None or not record.listed:
        return unload(agent, now, "not listed any more")
    if record.assigned.segments != occupant.segments or record.unfit:
        return unload(agent, now, "listed with other segments, or too large now")
    return None


def a_full_log_lets_nothing_start(agent: Agent, now: float) -> Rest | None:
    return REST if agent.log.full else None


def the_resident_partition_works(agent: Agent, now: float) -> Execute | Rest | None:
    """Its next task, or none while that waits for room."""
    record = agent.occupant()
    while record and agent.partitions.has_work(record):
        entry = agent.held.next_startable(record.key)
        assert entry is not None
        if room.has_room_for_output(agent, record, entry, now):
            return start(agent, record, entry, now)
        if entry.life.state == "waiting":
            return REST
    agent.slot.lacking_room_since = None
    return None


def the_deepest_with_work_takes_over(agent: Agent, now: float) -> Load | Unload | None:
    ready = agent.partitions.deepest_ready()
    if ready is None:
        return None
    if agent.slot.occupant is not None:
        return unload(agent, now, "another partition has work")
    return load(agent, ready, now)


def an_empty_slot_warms_up(agent: Agent, now: float) -> Load | None:
    """Nothing waits anywhere: load what will be needed first."""
    if agent.slot.occupant is not None:
        return None
    record = agent.partitions.shallowest_cached()
    return load(agent, record, now) if record else None


RULES: tuple[Rule, ...] = (
    what_is_under_way_ends_first,
    a_stopping_agent_starts_nothing,
    what_is_not_listed_leaves,
    a_full_log_lets_nothing_start,
    the_resident_partition_works,
    the_deepest_with_work_takes_over,
    an_empty_slot_warms_up,
)
