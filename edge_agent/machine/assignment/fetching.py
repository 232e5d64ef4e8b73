"""Which blob to fetch next, and the state of each partition that follows from the blobs it has.

Partitions with waiting inputs come first, the deepest of them first; then the others in the order
of the pipeline. A blob that several partitions use is fetched once. Before fetching, room is made
on disk by removing the blobs that were used longest ago and belong to no listed partition.
"""

from __future__ import annotations

from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.events import BlobFetched, BlobsRemoved, FetchFailed
from edge_agent.machine.records.instructions import CancelFetch, FetchBlob, RemoveBlobs
from edge_agent.machine.records.partitions import BEFORE_LOADING, Partition
from wire.manifest import BlobRef
from wire.messages.events import FetchStarted
from wire.messages.residency import Failure


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
    for digest in list(agent.fetches.active):
        wanted = agent.partitions.pins(digest) and not agent.stopping
        if not wanted and agent.fetches.cancel(digest):
            agent.instruct(CancelFetch(digest))


def fetch_more(agent: Agent, now: float) -> None:
    """As many as may be under way at once, as far as there is room; the most urgent first."""
    agent.fetches.resume_due(now)
    while agent.fetches.may_start_one:
        record = agent.partitions.first_to_fetch()
        digest = record.fetchable.first() if record else None
        if record is None or digest is None or not _has_room(agent, record.blobs[digest]):
            return
        agent.instruct(FetchBlob(record.blobs[digest], _store_base(agent)))
        agent.fetches.begin(record.blobs[digest])


def _has_room(agent: Agent, blob: BlobRef) -> bool:
    """Whether it fits on disk now. If not, blobs that nobody uses are removed; if there are none,
    room comes when a partition that is not listed any more leaves memory."""
    cache = agent.cache
    lacking = cache.taken_nbytes + agent.fetches.reserved_nbytes + blob.nbytes - cache.budget_nbytes
    if lacking <= 0:
        return True
    lacking -= cache.removing_nbytes
    going = cache.make_room(lacking) if lacking > 0 else ()
    if going:
        agent.instruct(RemoveBlobs(going))
    return False


def _store_base(agent: Agent) -> str:
    return agent.assignment.store_base if agent.assignment else ""


def settle_partitions(agent: Agent, now: float) -> None:
    """Move each partition that an event touched, and that is not in memory, to the state that
    follows from its blobs."""
    for record in agent.partitions.take_touched():
        if record.listed and record.life.state in BEFORE_LOADING:
            _settle(agent, record, now)


def _settle(agent: Agent, record: Partition, now: float) -> None:
    failure = record.unfit or next(iter(record.blob_failures.values()), None)
    if failure:
        agent.partitions.fail(record, failure, now)
        return
    state = record.life.state
    fetching = any(digest in record.missing for digest in agent.fetches.active)
    begun = fetching or state == "fetching"
    to = "cached" if not record.missing else "fetching" if begun else "waiting"
    if to == state:
        return
    if state == "fetching":
        _stop_watch(record, now)
    agent.partitions.move(record, to, now)
    if to == "fetching":
        _start_watch(agent, record, now)


def _start_watch(agent: Agent, record: Partition, now: float) -> None:
    record.fetching_since = now
    record.fetched_nbytes += record.missing_nbytes
    agent.report(FetchStarted(record.id, now, record.missing_nbytes))


def _stop_watch(record: Partition, now: float) -> None:
    if record.fetching_since is not None:
        record.fetch_s += now - record.fetching_since
        record.fetching_since = None
