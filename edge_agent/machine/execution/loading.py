"""Loading and evicting, and what follows when they end."""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import (
    LoadRefused,
    PartitionGone,
    PartitionReady,
    SegmentsPrepared,
)
from edge_agent.machine.records.instructions import Load, RemoveBlobs, Unload
from edge_agent.machine.records.partitions import Partition
from wire.memory import prepared_need
from wire.messages.events import PartitionEvicted, PartitionLoaded
from wire.messages.residency import Failure


def load(agent: Agent, record: Partition, now: float) -> Load:
    agent.partitions.move(record, "loading", now)
    limit_s = agent.pace.load_limit_s(record)
    number = agent.slot.load(record.assigned, record.streamed, now, limit_s)
    agent.cache.use(record.blobs, now)
    budget = agent.capabilities.memory_budget_nbytes
    room_nbytes = _room_to_prepare_nbytes(agent, record)
    return Load(number, record.assigned, record.streamed, budget, room_nbytes)


def _room_to_prepare_nbytes(agent: Agent, record: Partition) -> int:
    """Bytes on disk that are left when all that is listed has been fetched. Blobs that nobody uses
    are removed for what is about to be prepared."""
    cache = agent.cache
    wanted = sum(
        prepared_need(segment)
        for segment in record.assigned.segments
        if segment.graph.digest not in cache.prepared_of
    )
    lacking = wanted - _spare_nbytes(agent)
    going = cache.make_room(lacking, of_pinned=False) if lacking > 0 else ()
    if going:
        agent.instruct(RemoveBlobs(going))
    return max(0, _spare_nbytes(agent))


def _spare_nbytes(agent: Agent) -> int:
    cache = agent.cache
    return cache.budget_nbytes - cache.nbytes - agent.partitions.missing_nbytes


def segments_prepared(agent: Agent, event: SegmentsPrepared, now: float) -> None:
    for name, nbytes in event.prepared.items():
        agent.cache.add(name, nbytes, now)


def unload(agent: Agent, now: float, why: str) -> Unload:
    record, occupant = agent.occupant(), agent.slot.occupant
    assert occupant is not None
    if record is not None:
        agent.partitions.move(record, "evicting", now, why)
    return Unload(agent.slot.evict(now, agent.limits.evict_s), occupant.partition)


def partition_ready(agent: Agent, event: PartitionReady, now: float) -> None:
    occupant = agent.slot.loaded(event.partition)
    record = agent.partitions[event.partition]
    agent.partitions.move(record, "resident", now)
    agent.pace.learn_load(record, event.load_s)
    agent.report(
        PartitionLoaded(
            partition=event.partition,
            tier=occupant.tier,
            streamed=event.streamed,
            at_s=now,
            fetch_s=record.fetch_s,
            fetched_nbytes=record.fetched_nbytes,
            load_s=event.load_s,
            rss_nbytes=event.rss_nbytes,
            rss_before_nbytes=event.rss_before_nbytes,
            prepare_s=event.prepare_s,
        )
    )
    record.fetch_s, record.fetched_nbytes = 0.0, 0


def partition_gone(agent: Agent, event: PartitionGone, now: float) -> None:
    agent.slot.vacated(event.partition, "evicting")
    record = agent.partitions[event.partition]
    agent.partitions.move(record, "waiting", now, "evicted")
    agent.report(PartitionEvicted(event.partition, now, event.evict_s, event.rss_nbytes))
    if not record.listed:
        agent.partitions.remove(record)


def load_refused(agent: Agent, event: LoadRefused, now: float) -> None:
    """Corrupt blobs are fetched again, `corrupt_refetches` times; any other refusal is final until
    a new assignment lists the partition again."""
    agent.slot.vacated(event.partition, "loading")
    for digest in event.corrupt:
        agent.cache.discard(digest)
    record = agent.partitions[event.partition]
    agent.counts[f"load_refused_{event.kind}"] += 1
    if not record.listed:
        agent.partitions.move(record, "waiting", now, event.kind)
        agent.partitions.remove(record)
    elif event.corrupt and record.refetches < agent.limits.corrupt_refetches:
        record.refetches += 1
        agent.partitions.move(record, "waiting", now, event.kind)
    else:
        agent.partitions.fail(record, Failure(event.kind, event.reason), now)
