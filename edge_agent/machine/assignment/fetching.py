"""Which blob to fetch next, and how far that brings each partition.

Partitions with waiting inputs come first, the deepest of them first; then the others in the order
of the pipeline. A blob that several partitions use is fetched once. Before fetching, room is made
on disk by removing the blobs that were used longest ago and belong to no listed partition.
"""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import BlobFetched, BlobsRemoved, FetchFailed
from edge_agent.machine.records.instructions import CancelFetch, FetchBlob, RemoveBlobs
from edge_agent.machine.records.partitions import Partition
from wire.manifest import BlobRef
from wire.messages.events import FetchStarted
from wire.messages.residency import Failure

_ON_THE_WAY = ("waiting", "fetching", "cached")


def blob_fetched(agent: Agent, event: BlobFetched, now: float) -> None:
    agent.fetches.done(event.digest)
    agent.cache.add(event.digest, event.nbytes, now)


def fetch_failed(agent: Agent, event: FetchFailed, now: float) -> None:
    agent.counts[f"fetch_failed_{event.kind}"] += 1
    agent.fetches.fail(event.digest, Failure(event.kind, event.reason), event.retryable, now)


def blobs_removed(agent: Agent, event: BlobsRemoved, now: float) -> None:
    agent.cache.removed(event.digests)
    if agent.inventory_after_removal and not agent.cache.removing:
        agent.inventory_after_removal, agent.inventory_due = False, True


def cancel_unlisted(agent: Agent) -> None:
    """Stop fetching what no listed partition needs."""
    wanted = agent.partitions.pinned()
    for digest in list(agent.fetches.active):
        if (digest not in wanted or agent.stopping) and agent.fetches.cancel(digest):
            agent.tell(CancelFetch(digest))


def fetch_more(agent: Agent, now: float) -> None:
    for record in _by_urgency(agent):
        for blob in record.missing(agent.cache.blobs):
            if not agent.fetches.has_slot:
                return
            if _may_fetch(agent, blob, now):
                agent.fetches.begin(blob)
                agent.tell(FetchBlob(blob, _store_base(agent)))


def _by_urgency(agent: Agent) -> list[Partition]:
    records = [record for record in agent.partitions.listed() if _wants_blobs(record)]

    def urgency(record: Partition) -> tuple[bool, int]:
        has_work = agent.held.next_startable(record.key) is not None
        return (not has_work, -record.id.first if has_work else record.id.first)

    return sorted(records, key=urgency)


def _wants_blobs(record: Partition) -> bool:
    return record.life.state in ("waiting", "fetching")


def _may_fetch(agent: Agent, blob: BlobRef, now: float) -> bool:
    return (
        agent.fetches.may_start(blob.digest, now)
        and blob.digest not in agent.cache.removing
        and _has_room(agent, blob)
    )


def _has_room(agent: Agent, blob: BlobRef) -> bool:
    """Whether it fits now; if not, room is on its way, or comes when a partition has left."""
    cache = agent.cache
    lacking = cache.taken_nbytes + agent.fetches.reserved_nbytes + blob.nbytes - cache.budget_nbytes
    if lacking <= 0:
        return True
    lacking -= sum(cache.removing.values())
    victims = cache.victims(lacking, agent.pinned()) if lacking > 0 else ()
    if victims:
        agent.tell(RemoveBlobs(cache.begin_removal(victims)))
    return False


def _store_base(agent: Agent) -> str:
    return agent.assignment.store_base if agent.assignment else ""


def settle_partitions(agent: Agent, now: float) -> None:
    """Bring each partition that is not in memory to the state that the facts say."""
    for record in agent.partitions.listed():
        if record.life.state in _ON_THE_WAY:
            _settle(agent, record, now)


def _settle(agent: Agent, record: Partition, now: float) -> None:
    missing = record.missing(agent.cache.blobs)
    failure = record.unfit or _failure_of(agent, missing)
    if failure:
        record.fail(failure, now)
        return
    fetching = any(blob.digest in agent.fetches.active for blob in missing)
    begun = fetching or record.life.state == "fetching"
    to = "cached" if not missing else "fetching" if begun else "waiting"
    if to == record.life.state:
        return
    if record.life.state == "fetching":
        _stop_watch(record, now)
    record.life.move(to, now)
    if to == "fetching":
        _start_watch(agent, record, missing, now)


def _failure_of(agent: Agent, missing: list[BlobRef]) -> Failure | None:
    failures = (agent.fetches.failed.get(blob.digest) for blob in missing)
    return next((failure for failure in failures if failure), None)


def _start_watch(agent: Agent, record: Partition, missing: list[BlobRef], now: float) -> None:
    nbytes = sum(blob.nbytes for blob in missing)
    record.fetching_since = now
    record.fetched_nbytes += nbytes
    agent.report(FetchStarted(record.id, now, nbytes))


def _stop_watch(record: Partition, now: float) -> None:
    if record.fetching_since is not None:
        record.fetch_s += now - record.fetching_since
        record.fetching_since = None
