"""Room for frames: whether one more fits, and what is dropped if not.

The frames held, the outputs of running tasks and the inputs of those that were cancelled stay
within `hold_nbytes` together. Nobody reserved room for a frame that no partition takes, so such
early frames are dropped first, the newest before the others. A task starts only when there is room
for the largest output that it may make. What the orchestrator reserves is always enough for that;
frames beyond it (outputs that went to the orchestrator instead, or are of an earlier plan) are
given `room_s` to be released, then the newest waiting inputs are dropped. Outputs never are: only a
release removes them. Each drop is reported.
"""

from __future__ import annotations

from edge_agent.machine.frames.dropping import drop
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import FrameHead
from edge_agent.machine.records.held_frames import HeldInput
from edge_agent.machine.records.partitions import Partition
from wire.errors import TooLarge
from wire.messages.assignment import PartitionAssignment


def lacking_nbytes(agent: Agent, nbytes: int) -> int:
    """How many bytes are lacking to hold `nbytes` more; 0 or less if they fit."""
    taken = agent.held.nbytes + _promised_nbytes(agent)
    return taken + nbytes - agent.capabilities.hold_nbytes


def _promised_nbytes(agent: Agent) -> int:
    """The most that the outputs of running tasks may take, and the inputs of those of them that
    were cancelled."""
    slot = agent.slot
    if slot.occupant is None or not slot.running:
        return 0
    outputs_nbytes = len(slot.running) * _output_nbytes(agent, slot.occupant)
    return outputs_nbytes + sum(slot.cancelled_nbytes.values())


def _output_nbytes(agent: Agent, assigned: PartitionAssignment) -> int:
    return assigned.emits_nbytes + agent.limits.frame_overhead_nbytes


def fits(agent: Agent, head: FrameHead, now: float, *, wanted: bool) -> bool:
    """Whether an arriving frame fits; early frames are dropped for one that a partition takes."""
    lacking = lacking_nbytes(agent, head.nbytes)
    if lacking > 0 and wanted and lacking <= agent.held.early_nbytes:
        _drop_early(agent, lacking, now)
        return True
    return lacking <= 0


def clear_early(agent: Agent, now: float) -> None:
    """The spool refused a frame for want of room: drop all early ones."""
    _drop_early(agent, agent.held.early_nbytes, now)


def _drop_early(agent: Agent, lacking: int, now: float) -> int:
    """Drop the newest early frames; how many bytes are lacking after that."""
    while lacking > 0 and (entry := agent.held.newest_early()) is not None:
        lacking -= entry.head.nbytes
        drop(agent, entry, "early", "no partition takes it, and others need the room", now)
    return lacking


def has_room_for_output(agent: Agent, record: Partition, entry: HeldInput, now: float) -> bool:
    """Whether the task that takes `entry` may start: its output has room. False also if `entry`
    itself had to be dropped because nothing else could be."""
    lacking = _lacking_for_output(agent, record, entry)
    if lacking > 0:
        lacking = _drop_early(agent, lacking, now)
    if lacking <= 0:
        agent.slot.lacking_room_since = None
        return True
    if agent.slot.lacking_room_since is None:
        agent.slot.lacking_room_since = now
    if now < agent.slot.lacking_room_since + agent.limits.room_s:
        return False
    return _drop_waiting(agent, lacking, entry, now)


def fits_output(agent: Agent, record: Partition, entry: HeldInput, begun: int) -> bool:
    """Whether there is room for its output beside those of so many others of its group."""
    promised = begun * _output_nbytes(agent, record.assigned)
    return _lacking_for_output(agent, record, entry) + promised <= 0


def _lacking_for_output(agent: Agent, record: Partition, entry: HeldInput) -> int:
    """What it replaces makes room for it."""
    makes = agent.held.outputs.get(record.makes(entry.name))
    replaced = makes.head.nbytes if makes else 0
    return lacking_nbytes(agent, _output_nbytes(agent, record.assigned) - replaced)


def _drop_waiting(agent: Agent, lacking: int, entry: HeldInput, now: float) -> bool:
    """Drop the newest inputs, or `entry` alone if all the others are not enough."""
    enough = agent.held.inputs_nbytes - entry.head.nbytes >= lacking
    for other in _newest_others(agent, entry, lacking) if enough else [entry]:
        drop(agent, other, TooLarge.kind, _no_room(agent, entry), now)
    agent.slot.lacking_room_since = None
    return enough


def _newest_others(agent: Agent, entry: HeldInput, nbytes: int) -> list[HeldInput]:
    chosen: list[HeldInput] = []
    for other in agent.held.newest_inputs():
        if nbytes <= 0:
            break
        if other is not entry:
            chosen.append(other)
            nbytes -= other.head.nbytes
    return chosen


def _no_room(agent: Agent, entry: HeldInput) -> str:
    held, hold = agent.held.nbytes, agent.capabilities.hold_nbytes
    return f"the output of {entry.name} has no room: {held} of {hold} bytes are held"


def wake_at(agent: Agent) -> float | None:
    """When the task that waits for room has waited `room_s`."""
    since = agent.slot.lacking_room_since
    idle = agent.slot.busy is None and not agent.stopping and not agent.log.full
    return since + agent.limits.room_s if since is not None and idle else None
