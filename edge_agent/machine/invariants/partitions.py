"""Partitions: what each knows of its blobs, and the indices over all of them."""

from __future__ import annotations

from edge_agent.machine.invariants.checks import check, check_equal, check_ranks
from edge_agent.machine.invariants.lifecycles import check_life
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.partitions import IN_MEMORY, INCOMPLETE, Partition


def check_partitions(agent: Agent) -> None:
    records = list(agent.partitions)
    for record in records:
        _check_record(agent, record)
    _check_work(agent)
    _check_queues(agent, [record for record in records if record.listed])
    _check_missing(agent, records)
    said = [residency.partition for residency in agent.partitions.residencies()]
    check_equal(said, [record.id for record in records], "residencies in the records' order")
    for residency, record in zip(agent.partitions.residencies(), records, strict=True):
        check_equal(residency.status, record.status, f"residency of {record.id}", record.life)
        check_equal(residency.failure, record.failure, f"failure of {record.id}", record.life)


def _check_record(agent: Agent, record: Partition) -> None:
    life, state = record.life, record.life.state
    check_life(life)
    here = agent.slot.partition == record.id
    check(record.listed or here, f"{record.id} is kept for nothing", life)
    # What hangs in memory for good was given up, and says nothing of a partition listed anew.
    given_up = state == "failed" or agent.slot.stuck
    check(here == (state in IN_MEMORY) or given_up, f"{record.id} in memory", life)
    failed = state == "failed"
    check((record.failure is not None) == failed, f"{record.id} failed without a reason", life)
    watched = record.fetching_since is not None
    check(watched == (state == "fetching"), f"the watch of {record.id} runs", life)
    settled = agent.partitions.touched.get(record.id) is None
    if settled and record.listed and state in ("cached", "waiting", "fetching"):
        check((state == "cached") == (not record.missing), f"{record.id} lacks blobs", life)
    _check_blobs(agent, record)


def _check_blobs(agent: Agent, record: Partition) -> None:
    life, what = record.life, f"of {record.id}"
    assigned = {blob.digest: blob for blob in record.assigned.blobs}
    check_equal(record.blobs, assigned, f"blobs {what}", life)
    check_equal(record.total_nbytes, sum(b.nbytes for b in assigned.values()), f"size {what}", life)
    missing = {d: blob for d, blob in assigned.items() if d not in agent.cache}
    check_equal(record.missing, missing, f"missing blobs {what}", life)
    nbytes = sum(blob.nbytes for blob in missing.values())
    check_equal(record.missing_nbytes, nbytes, f"missing bytes {what}", life)
    places = {
        digest: place
        for place, digest in enumerate(assigned)
        if digest in missing and _may_fetch(agent, digest)
    }
    check_ranks(record.fetchable, places, f"what can be fetched {what}")
    failures = {d: agent.fetches.failed[d] for d in missing if d in agent.fetches.failed}
    check_equal(record.blob_failures, failures, f"failures {what}", life)


def _may_fetch(agent: Agent, digest: str) -> bool:
    return digest not in agent.cache.removing and agent.fetches.may_start(digest)


def _check_work(agent: Agent) -> None:
    startable = {key for key, queue in agent.held.queues.items() if queue.startable}
    check_equal(agent.partitions.keys_with_work, startable, "keys with inputs that can start")


def _check_queues(agent: Agent, listed: list[Partition]) -> None:
    partitions = agent.partitions
    longest = {record.key: record for record in sorted(listed, key=lambda r: r.id.last)}
    check_equal(agent.senders.keys(), set(longest), "cuts that senders are known of")
    for record in listed:
        _check_senders(agent, record)
        check(partitions.taking(record.key) is longest[record.key], f"who takes {record.key}")
        check(record in partitions.makers_of(record.id.cut), f"who makes {record.id.cut}")
    to_fetch = {r.id: _urgency(agent, r) for r in listed if _is_incomplete(r) and r.fetchable}
    check_ranks(partitions.to_fetch, to_fetch, "partitions to be fetched for")
    cached = {r.id: r.depth for r in listed if r.life.state == "cached"}
    check_ranks(partitions.cached, cached, "cached partitions")
    ready = {
        r.id: -r.depth
        for r in listed
        if r.id in cached and longest[r.key] is r and r.key in partitions.keys_with_work
    }
    check_ranks(partitions.ready, ready, "cached partitions with work")


def _check_senders(agent: Agent, record: Partition) -> None:
    senders = record.assigned.senders
    named = ("anybody",) if senders is None else senders
    barred = [name for name in named if not agent.senders.admits(record.key, name)]
    check(not barred, f"{barred} may not send to {record.id}", record.life)


def _is_incomplete(record: Partition) -> bool:
    return record.life.state in INCOMPLETE


def _urgency(agent: Agent, record: Partition) -> tuple[bool, int, int]:
    has_work, first = record.key in agent.partitions.keys_with_work, record.id.first
    return (not has_work, -first if has_work else first, record.position)


def _check_missing(agent: Agent, records: list[Partition]) -> None:
    missing = {
        digest: blob.nbytes
        for record in records
        if record.listed
        for digest, blob in record.missing.items()
    }
    check_equal(agent.partitions.missing, missing, "blobs that listed partitions miss")
    check_equal(agent.partitions.missing_nbytes, sum(missing.values()), "bytes that they miss")
