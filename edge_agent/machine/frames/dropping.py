"""Dropping frames: always with an event, so that the orchestrator can have them sent again."""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import FrameHead
from edge_agent.machine.records.held_frames import HeldInput
from wire.messages.events import FrameDropped


def drop(agent: Agent, entry: HeldInput, kind: str, reason: str, now: float) -> None:
    """Drop a frame that is held."""
    agent.held.move_input(entry, "dropped", now, kind)
    agent.held.remove_input(entry)
    refuse(agent, entry.head, entry.sender, kind, reason)


def refuse(agent: Agent, head: FrameHead, sender: str, kind: str, reason: str) -> None:
    """Drop a frame that just arrived. The orchestrator knows whether its sender's copies count."""
    agent.counts[f"dropped_{kind}"] += 1
    agent.report_drop(FrameDropped(head.activation, kind, reason, sender))
    agent.forget_input(head.activation, sender)


def discard(agent: Agent, head: FrameHead, sender: str) -> None:
    """Remove a copy that nobody misses: another one is held, or was computed."""
    agent.forget_input(head.activation, sender)
