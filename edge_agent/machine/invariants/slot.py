"""The slot in memory: at most one partition, at most one thing under way, each with a limit."""

from __future__ import annotations

from edge_agent.machine.invariants.checks import check
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.partitions import IN_MEMORY

_STATES = {"loading": "loading", "executing": "resident", "evicting": "evicting", None: "resident"}


def check_slot(agent: Agent) -> None:
    slot = agent.slot
    check(slot.busy is None or slot.occupant, "something is under way in an empty slot", slot)
    timed = slot.deadline is not None
    check(timed == (slot.busy is not None and not slot.stuck), "what is under way is timed", slot)
    check(not slot.stuck or slot.busy, "what is stuck stays busy", slot)
    running = slot.busy == "executing" and not slot.stuck
    check(bool(slot.running) == running, "a task runs exactly while it executes", slot)
    known = slot.cancelled_nbytes.keys() <= slot.running.keys()
    check(known, "bytes are kept for a task that does not run", slot)
    most = agent.limits.group_tasks
    check(len(slot.running) <= most, f"more than {most} tasks in one go", slot)
    check(slot.lacking_room_since is None or slot.busy is None, "a busy slot waits for room", slot)
    in_memory = [record for record in agent.partitions if record.life.state in IN_MEMORY]
    check(len(in_memory) <= 1, f"more than one partition in memory: {in_memory}", slot)
    record = agent.occupant()
    if record is not None and not slot.stuck:
        fits = record.life.state == _STATES[slot.busy]
        check(fits, f"partition {record.id} and its slot differ: {slot}", record.life)
