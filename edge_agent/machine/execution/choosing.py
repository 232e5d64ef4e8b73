"""What the one seat in memory does next: an ordered list of small rules, the first that knows wins.

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
from edge_agent.machine.records.partitions import Partition

Choice = Load | Unload | Execute
Rest = tuple[()]  # decided: nothing, for now
REST: Rest = ()
Rule = Callable[[Agent, float], Choice | Rest | None]


def choose(agent: Agent, now: float) -> None:
    for rule in RULES:
        choice = rule(agent, now)
        if isinstance(choice, (Load, Unload, Execute)):
            agent.tell(choice)
        if choice is not None:
            return


def what_is_under_way_ends_first(agent: Agent, now: float) -> Rest | None:
    return REST if agent.seat.busy else None


def a_stopping_agent_starts_nothing(agent: Agent, now: float) -> Rest | None:
    return REST if agent.stopping else None


def what_is_not_listed_leaves(agent: Agent, now: float) -> Unload | None:
    occupant, record = agent.seat.occupant, agent.seated()
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
    record = agent.seated()
    while record and _has_work(agent, record):
        entry = agent.held.next_startable(record.key)
        assert entry is not None
        if room.is_made(agent, record, entry, now):
            return start(agent, record, entry, now)
        if entry.life.state == "waiting":
            return REST
    agent.seat.wanting_since = None
    return None


def the_deepest_with_work_takes_over(agent: Agent, now: float) -> Load | Unload | None:
    ready = [record for record in _cached(agent) if _has_work(agent, record)]
    if not ready:
        return None
    if agent.seat.occupant is not None:
        return unload(agent, now, "another partition has work")
    return load(agent, max(ready, key=_depth), now)


def an_empty_seat_warms_up(agent: Agent, now: float) -> Load | None:
    """Nothing waits anywhere: load what will be needed first."""
    cached = _cached(agent)
    if agent.seat.occupant is not None or not cached:
        return None
    return load(agent, min(cached, key=_depth), now)


def _cached(agent: Agent) -> list[Partition]:
    return [record for record in agent.partitions.listed() if record.life.state == "cached"]


def _takes(agent: Agent, record: Partition) -> bool:
    return agent.partitions.taking(record.key) is record


def _has_work(agent: Agent, record: Partition) -> bool:
    return _takes(agent, record) and agent.held.next_startable(record.key) is not None


def _depth(record: Partition) -> tuple[int, int, str, bool]:
    return (record.id.first, record.id.last, record.id.model, record.id.exact)


RULES: tuple[Rule, ...] = (
    what_is_under_way_ends_first,
    a_stopping_agent_starts_nothing,
    what_is_not_listed_leaves,
    a_full_log_lets_nothing_start,
    the_resident_partition_works,
    the_deepest_with_work_takes_over,
    an_empty_seat_warms_up,
)
