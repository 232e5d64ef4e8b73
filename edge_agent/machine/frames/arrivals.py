"""What becomes of a frame that arrived: queued, held early, recognised as a repeat, or dropped.

Nothing is dropped without an event (section 6, rule 4 of the design), and the sender keeps its
copy until the orchestrator releases it, so what is dropped here can be sent again.
"""

from __future__ import annotations

from dataclasses import replace

from edge_agent.machine.frames import room
from edge_agent.machine.frames.dropping import discard, drop, refuse
from edge_agent.machine.frames.takers import taker_of
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import NO_ROOM, FrameArrived, FrameHead, FrameLost
from edge_agent.machine.records.held_frames import HeldInput, key_of
from edge_agent.machine.records.partitions import Partition
from edge_agent.machine.records.transitions import life_of
from wire.errors import Malformed, TooLarge
from wire.messages.events import FrameDropped, FrameReceived


def frame_arrived(agent: Agent, event: FrameArrived, now: float) -> None:
    agent.seen_inputs = event.number
    name = event.head.activation
    entry = agent.held.inputs.get(name)
    if agent.is_cancelled(name):
        refuse(agent, event.head, event.sender, "cancelled", "its run or item was cancelled")
    elif entry is None:
        _new(agent, event, now)
    elif event.sender == entry.sender:
        _repeated(agent, entry, event, now)
    else:
        _from_another(agent, entry, event, now)


def frame_lost(agent: Agent, event: FrameLost, now: float) -> None:
    """It never was complete here. If it repeated a frame that is held, nothing is lost. If the
    spool had no room, early frames are dropped to make room for the next try."""
    entry = agent.held.inputs.get(event.activation)
    if entry is not None and (entry.sender == event.sender or entry.life.state != "early"):
        return
    kind = event.kind
    if kind == NO_ROOM:
        room.clear_early(agent, now)
        kind = TooLarge.kind
    agent.counts[f"dropped_{kind}"] += 1
    agent.report_drop(FrameDropped(event.activation, kind, event.reason, event.sender))


def _new(agent: Agent, event: FrameArrived, now: float) -> None:
    head, sender = event.head, event.sender
    taker = taker_of(agent, key_of(head), sender)
    if taker and is_finished(agent, taker, head):
        agent.counts["repeated_frames"] += 1
        _report_received(agent, head, sender, now)
        discard(agent, head, sender)
    elif taker and head.raw_nbytes > taker.assigned.accepts_nbytes:
        refuse(agent, head, sender, "too_large", _over_bound(head, taker))
    elif not room.fits(agent, head, now, wanted=taker is not None):
        refuse(agent, head, sender, "too_large", _over_hold(agent, head))
    elif taker:
        agent.held.move_input(_admit(agent, event, now), "waiting", now)
        _report_received(agent, head, sender, now)
    elif agent.held.early_nbytes + head.nbytes > agent.early_limits.early_nbytes:
        why = "no partition takes it from there, and too much waits for one already"
        refuse(agent, head, sender, "early", why)
    else:
        agent.held.move_input(_admit(agent, event, now), "early", now)


def _admit(agent: Agent, event: FrameArrived, now: float) -> HeldInput:
    name = event.head.activation
    entry = HeldInput(
        head=event.head,
        sender=event.sender,
        arrived_at=now,
        life=life_of("task", name, "arrived", agent.cause, agent.now),
        opened=not event.head.barrier or name in agent.opened,
    )
    agent.held.add_input(entry)
    return entry


def _repeated(agent: Agent, entry: HeldInput, event: FrameArrived, now: float) -> None:
    """It overwrote its sender's copy in the spool, so there is nothing to remove there."""
    head = event.head
    agent.counts["repeated_frames"] += 1
    if entry.life.state != "running":
        _renew(agent, entry, head, now)
    elif key_of(head) == entry.key and head.attempt > entry.head.attempt:
        entry.again = head
    if entry.life.state in ("waiting", "running"):
        _report_received(agent, head, event.sender, now)


def _renew(agent: Agent, entry: HeldInput, head: FrameHead, now: float) -> None:
    """The new copy is in the spool now, whichever attempt it is of; the attempt noted only rises.
    If the new copy cannot be used, there is no other."""
    taker = taker_of(agent, entry.key, entry.sender)
    if key_of(head) != entry.key:
        drop(agent, entry, Malformed.kind, "it came again as a frame of another model", now)
        return
    agent.held.replace_head(entry, replace(head, attempt=max(head.attempt, entry.head.attempt)))
    if taker and head.raw_nbytes > taker.assigned.accepts_nbytes:
        drop(agent, entry, TooLarge.kind, _over_bound(head, taker), now)
    elif room.lacking_nbytes(agent, 0) > 0:
        drop(agent, entry, TooLarge.kind, _over_hold(agent, head), now)


def _from_another(agent: Agent, entry: HeldInput, event: FrameArrived, now: float) -> None:
    """Two senders' copies under one name. The first that a partition takes stays; a stranger's
    gives way to it."""
    head, sender = event.head, event.sender
    taken = taker_of(agent, key_of(head), sender) is not None
    if entry.life.state == "early":
        if taken:
            agent.counts["strangers_frames"] += 1
            forget_input(agent, entry, "dropped", now, f"{sender} has a place, {entry.sender} none")
            _new(agent, event, now)
        else:
            refuse(agent, head, sender, "early", f"{entry.sender}'s copy waits here already")
    elif taken and key_of(head) == entry.key:
        _second_copy(agent, entry, head)
        _report_received(agent, head, sender, now)
        discard(agent, head, sender)
    else:
        agent.counts["strangers_frames"] += 1
        discard(agent, head, sender)


def _second_copy(agent: Agent, entry: HeldInput, head: FrameHead) -> None:
    """The first stays, under the higher attempt of the two: if it runs, it is computed again."""
    agent.counts["repeated_frames"] += 1
    if head.attempt <= entry.head.attempt:
        return
    if entry.life.state == "running":
        entry.again = replace(entry.again or entry.head, attempt=head.attempt)
    else:
        agent.held.replace_head(entry, replace(entry.head, attempt=head.attempt))


def is_finished(agent: Agent, taker: Partition, head: FrameHead) -> bool:
    """Computed here under this attempt or a later one. A higher attempt says that the output
    was lost after its release, so it is computed again."""
    name = head.activation
    known = agent.finished.get((name.run, name.item, taker.id.first, taker.id.last))
    return known is not None and known >= head.attempt


def settle_inputs(agent: Agent, now: float) -> None:
    """The assignment changed: early frames may have a partition now, others none any more."""
    for key, queue in list(agent.held.queues.items()):
        if agent.partitions.taking(key) is not None:
            for entry in list(queue.early.values()):
                taker = taker_of(agent, key, entry.sender)
                if taker is not None:
                    _adopt(agent, entry, taker, now)
        else:
            for entry in list(queue.waiting.values()):
                why = "its partition is not listed any more"
                agent.held.move_input(entry, "early", now, why)
    _bound_early(agent, now)


def _adopt(agent: Agent, entry: HeldInput, taker: Partition, now: float) -> None:
    if is_finished(agent, taker, entry.head):
        forget_input(agent, entry, "done", now, "it was computed before")
    elif entry.head.raw_nbytes > taker.assigned.accepts_nbytes:
        drop(agent, entry, "too_large", _over_bound(entry.head, taker), now)
        return
    else:
        agent.held.move_input(entry, "waiting", now)
    _report_received(agent, entry.head, entry.sender, now)


def _bound_early(agent: Agent, now: float) -> None:
    """Beyond their bound, the newest early frames are dropped, with an event each."""
    held = agent.held
    while held.early_nbytes > agent.early_limits.early_nbytes:
        entry = held.newest_early()
        assert entry is not None
        why = "no partition takes it from there, and too much waits for one"
        drop(agent, entry, "early", why, now)


def expire_early(agent: Agent, now: float) -> None:
    while (entry := agent.held.oldest_early()) is not None:
        held_s = now - entry.early_since
        if now < entry.early_since + agent.early_limits.early_s:
            return
        why = f"no partition took it from {entry.sender} within {held_s:.0f} s"
        drop(agent, entry, "early", why, now)


def early_wake_at(agent: Agent) -> float | None:
    oldest = agent.held.oldest_early()
    return None if oldest is None else oldest.early_since + agent.early_limits.early_s


def _report_received(agent: Agent, head: FrameHead, sender: str, now: float) -> None:
    agent.report(FrameReceived(head.activation, sender, head.nbytes, now))


def _over_bound(head: FrameHead, taker: Partition) -> str:
    return (
        f"{head.raw_nbytes} raw bytes, and {taker.id} takes {taker.assigned.accepts_nbytes}: "
        "send a smaller input, or add the model with a larger --max-shape"
    )


def _over_hold(agent: Agent, head: FrameHead) -> str:
    return f"{head.nbytes} bytes, with {agent.held.nbytes} of {agent.capabilities.hold_nbytes} held"


def forget_input(agent: Agent, entry: HeldInput, state: str, now: float, why: str = "") -> None:
    """Remove an input that is no longer needed; its task must not be running."""
    agent.held.move_input(entry, state, now, why)
    agent.held.remove_input(entry)
    discard(agent, entry.head, entry.sender)
