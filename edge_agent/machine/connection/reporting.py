"""What the agent publishes about itself: residency, telemetry, and events with its inventory.

Nothing is published while disconnected: events stay in the log, and retained messages are
published again when the connection is back.
"""

from __future__ import annotations

from operator import attrgetter

from edge_agent.machine.frames.takers import strangers
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.instructions import (
    PublishEvents,
    PublishResidency,
    PublishTelemetry,
)
from wire.messages.events import EventBatch, Inventory
from wire.messages.residency import Residency

_name_order = attrgetter("run", "item", "cut")  # as names compare, without a call for each pair


def residency_of(agent: Agent) -> Residency:
    generation, revision = agent.stamp
    return Residency(
        connection=agent.connection,
        generation=generation,
        revision=revision,
        partitions=agent.partitions.residencies(),
        cached_count=len(agent.cache.blobs),
        cached_nbytes=agent.cache.nbytes,
        least_generation=agent.generation,
    )


def inventory_of(agent: Agent) -> Inventory:
    generation, revision = agent.stamp
    return Inventory(
        generation=generation,
        revision=revision,
        outputs=tuple(sorted(agent.held.outputs, key=_name_order)),
        inputs=tuple(sorted(agent.held.inputs.keys() - strangers(agent), key=_name_order)),
        running=agent.slot.task,
        cached=tuple(sorted(agent.cache.blobs)),
        partitions=agent.partitions.residencies(),
    )


def publish(agent: Agent, now: float) -> None:
    """Whatever is due now; the events of one step go out as one batch."""
    if not agent.online:
        return
    if agent.inventory_due or _is_left_alone(agent, now):
        agent.inventory_due, agent.touched_at = False, now
        agent.report(inventory_of(agent))
    _publish_residency(agent, now)
    _publish_telemetry(agent, now)
    _publish_events(agent, now)


def _publish_residency(agent: Agent, now: float) -> None:
    partitions = agent.partitions
    residency = agent.residency.due(
        statuses=(agent.stamp, agent.connection, partitions.status_version),
        numbers=(partitions.numbers_version, agent.cache.version),
        make=lambda: residency_of(agent),
        now=now,
    )
    if residency is not None:
        agent.instruct(PublishResidency(residency))


def _is_left_alone(agent: Agent, now: float) -> bool:
    restate_at = restate_wake_at(agent)
    return restate_at is not None and now >= restate_at


def restate_wake_at(agent: Agent) -> float | None:
    """When to report the inventory unasked: a release or a cancellation may have been lost."""
    holds = agent.held.inputs or agent.held.outputs
    return agent.touched_at + agent.limits.restate_s if holds else None


def _publish_telemetry(agent: Agent, now: float) -> None:
    telemetry = agent.telemetry.due(
        agent.held.queue_depth, agent.held.nbytes, agent.connection, now
    )
    if telemetry is not None:
        agent.instruct(PublishTelemetry(telemetry))


def _publish_events(agent: Agent, now: float) -> None:
    """A repeat is bounded: as long as nobody acknowledges, repeating everything helps nobody."""
    limits, log = agent.limits, agent.log
    if agent.repeat_at is not None and now >= agent.repeat_at:
        _publish(agent, log.repeated(agent.boot, agent.connection, limits.repeat_batches))
        agent.repeat_at = now + limits.repeat_s
    if log.unsent and now >= gathered_at(agent):
        _publish(agent, log.fresh(agent.boot, agent.connection))
    if not len(log):
        agent.repeat_at = None
    elif agent.repeat_at is None:
        agent.repeat_at = now + limits.repeat_s


def gathered_at(agent: Agent) -> float:
    """When the waiting events are published: at once if one of them is pressing, else a moment
    after the newest, so that the frame that a task made is sent first. While a task runs they wait
    longer: its end will be in the same batch."""
    log, limits = agent.log, agent.limits
    if agent.stopping or log.pressing or log.unsent_since is None:
        return 0.0
    latest = log.unsent_since + limits.gather_busy_s
    if agent.slot.running:
        return latest
    return min(latest, log.newest_at + limits.gather_s)


def gather_wake_at(agent: Agent) -> float | None:
    return gathered_at(agent) if agent.log.unsent else None


def _publish(agent: Agent, batches: list[EventBatch]) -> None:
    for batch in batches:
        agent.instruct(PublishEvents(batch))


def repeat_everything(agent: Agent, now: float) -> None:
    """After a reconnect, or for a new orchestrator: publish again what was not acknowledged."""
    if not agent.online:
        return
    _publish(agent, agent.log.repeated(agent.boot, agent.connection))
    agent.repeat_at = now + agent.limits.repeat_s
