"""Which partition takes a frame: one that begins at its cut, if its sender may send there.

A frame whose sender may not is a stranger's. It may only be ahead of the assignment that lists its
sender, so it is held like all that come early, and judged by each assignment that follows.
"""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.partitions import Key, Partition
from wire.ids import ActivationId


def taker_of(agent: Agent, key: Key, sender: str) -> Partition | None:
    """The partition that takes inputs of this key from this sender."""
    taker = agent.partitions.taking(key)
    return taker if taker is not None and agent.senders.admits(key, sender) else None


def strangers(agent: Agent) -> set[ActivationId]:
    """Inputs that are held early although a partition takes their like from others."""
    return {
        name
        for key, queue in agent.held.queues.items()
        if queue.early and agent.partitions.taking(key) is not None
        for name in queue.early
    }
