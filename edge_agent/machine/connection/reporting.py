"""What the agent says about itself: residency, inventory, telemetry, and its events.

Nothing is said while disconnected; events stay in the log, and what is retained is said again
after the connection is back.
"""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.instructions import (
    PublishEvents,
    PublishResidency,
    PublishTelemetry,
)
from edge_agent.machine.records.partitions import Partition
from wire.messages.events import EventBatch, Inventory
from wire.messages.residency import PartitionResidency, Residency


def residency_of(agent: Agent) -> Residency:
    generation, revision = agent.stamp
    return Residency(
        connection=agent.connection,
        generation=generation,
        revision=revision,
        partitions=_partitions(agent),
        cached_count=len(agent.cache.blobs),
        cached_nbytes=agent.cache.nbytes,
    )


def _partitions(agent: Agent) -> tuple[PartitionResidency, ...]:
    return tuple(_partition(agent, record) for record in agent.partitions)


def _partition(agent: Agent, record: Partition) -> PartitionResidency:
    return PartitionResidency(
        partition=record.id,
        model_name=record.assigned.model_name,
        status=record.status,
        fetched_nbytes=sum(
            blob.nbytes if blob.digest in agent.cache else agent.fetches.nbytes_of(blob.digest)
            for blob in record.blobs
        ),
        total_nbytes=record.total_nbytes,
        streamed=record.streamed,
        failure=record.failure,
    )


def inventory_of(agent: Agent) -> Inventory:
    generation, revision = agent.stamp
    return Inventory(
        generation=generation,
        revision=revision,
        outputs=tuple(sorted(agent.held.outputs)),
        inputs=tuple(sorted(agent.held.inputs)),
        running=agent.seat.task,
        cached=tuple(sorted(agent.cache.blobs)),
        partitions=_partitions(agent),
    )


def publish(agent: Agent, now: float) -> None:
    """Whatever is due now; the events of one turn go out as one batch."""
    if not agent.online:
        return
    if agent.inventory_due or _is_left_alone(agent, now):
        agent.inventory_due, agent.touched_at = False, now
        agent.report(inventory_of(agent))
    residency = residency_of(agent)
    if agent.residency.due(residency, now):
        agent.tell(PublishResidency(residency))
    _publish_telemetry(agent, now)
    _publish_events(agent, now)


def _is_left_alone(agent: Agent, now: float) -> bool:
    restate_at = restate_wake_at(agent)
    return restate_at is not None and now >= restate_at


def restate_wake_at(agent: Agent) -> float | None:
    """When to say unasked what is held here: a release or a cancellation may have been lost."""
    holds = agent.held.inputs or agent.held.outputs
    return agent.touched_at + agent.limits.restate_s if holds else None


def _publish_telemetry(agent: Agent, now: float) -> None:
    telemetry = agent.telemetry.due(
        agent.held.queue_depth, agent.held.nbytes, agent.connection, now
    )
    if telemetry is not None:
        agent.tell(PublishTelemetry(telemetry))


def _publish_events(agent: Agent, now: float) -> None:
    """A repeat is bounded: while nobody acknowledges, saying everything again helps nobody."""
    limits = agent.limits
    if agent.repeat_at is not None and now >= agent.repeat_at:
        batches = agent.log.repeated(agent.boot, agent.connection)
        _publish(agent, batches[: limits.repeat_batches])
        agent.repeat_at = now + limits.repeat_s
    _note(agent, now)
    if agent.log.unsent and now >= gathered_at(agent):
        agent.unsaid_since = None
        _publish(agent, agent.log.fresh(agent.boot, agent.connection))
    if not len(agent.log):
        agent.repeat_at = None
    elif agent.repeat_at is None:
        agent.repeat_at = now + limits.repeat_s


def _note(agent: Agent, now: float) -> None:
    """Since when events wait, and when the newest came."""
    if agent.log.unsent and agent.unsaid_since is None:
        agent.unsaid_since = now
    if agent.log.last_seq > agent.noted_seq:
        agent.noted_seq, agent.noted_at = agent.log.last_seq, now


def gathered_at(agent: Agent) -> float:
    """When the events that wait go out: at once when one of them is pressing, else a moment after
    the newest, so that the frame that a task made is on its way before; with a task running, its
    end comes along."""
    if agent.stopping or agent.log.pressing or agent.unsaid_since is None:
        return 0.0
    latest = agent.unsaid_since + agent.limits.gather_busy_s
    if agent.seat.task is not None:
        return latest
    return min(latest, agent.noted_at + agent.limits.gather_s)


def gather_wake_at(agent: Agent) -> float | None:
    return gathered_at(agent) if agent.log.unsent else None


def _publish(agent: Agent, batches: list[EventBatch]) -> None:
    for batch in batches:
        agent.tell(PublishEvents(batch))


def repeat_everything(agent: Agent, now: float) -> None:
    """After a reconnect, or for a new orchestrator: say again what nobody acknowledged."""
    if not agent.online:
        return
    _publish(agent, agent.log.repeated(agent.boot, agent.connection))
    agent.repeat_at = now + agent.limits.repeat_s
