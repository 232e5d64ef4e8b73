"""Cache and fetches: totals, pins, what may go and what may be fetched, from the facts alone."""

from __future__ import annotations

from collections import Counter

from edge_agent.machine.invariants.checks import check, check_equal, check_ranks
from edge_agent.machine.records.agent import Agent
from edge_agent.machine.records.cache import owner_of


def check_blobs(agent: Agent) -> None:
    _check_totals(agent)
    _check_pins(agent)
    _check_removable(agent)
    _check_fetches(agent)


def _check_totals(agent: Agent) -> None:
    cache = agent.cache
    there = cache.blobs | cache.prepared
    check_equal(cache.nbytes, sum(there.values()), "bytes in the cache")
    check_equal(cache.removing_nbytes, sum(cache.removing.values()), "bytes being removed")
    check_equal(set(cache.used_at), set(there), "names with a time of use")
    check(not there.keys() & cache.removing.keys(), "what is being removed is not in the cache")
    check(all(owner_of(name) != name for name in cache.prepared), "a blob counts as prepared")
    prepared = {(owner_of(name), name) for name in cache.prepared}
    kept = {(owner, name) for owner, names in cache.prepared_of.items() for name in names}
    check_equal(kept, prepared, "what was prepared by owner")
    check(all(cache.prepared_of.values()), "an owner of nothing prepared")


def _check_pins(agent: Agent) -> None:
    users = Counter(
        digest for record in agent.partitions if not record.unfit for digest in record.blobs
    )
    if agent.slot.occupant is not None:
        users.update(blob.digest for blob in agent.slot.occupant.blobs)
    check_equal(agent.cache.pins, dict(users), "pins of blobs in use")


def _check_removable(agent: Agent) -> None:
    cache = agent.cache
    ranks = {name: (at, name in cache.blobs, name) for name, at in cache.used_at.items()}
    pinned = {name for name in ranks if owner_of(name) in cache.pins}
    first = {name: rank for name, rank in ranks.items() if name not in pinned}
    last = {name: ranks[name] for name in pinned if name not in cache.blobs}
    check_ranks(cache.removable, first, "what may be removed")
    check_ranks(cache.removable_at_last, last, "what may be removed at last")


def _check_fetches(agent: Agent) -> None:
    fetches = agent.fetches
    active, failed, paused = set(fetches.active), set(fetches.failed), set(fetches.paused)
    check(len(active) <= agent.limits.parallel_fetches, f"too many fetches at once: {active}")
    check(not active & (failed | paused), "a fetch is under way that failed or pauses")
    check(not failed & paused, "a fetch that failed for good pauses")
    check(paused <= set(fetches.tries), "a fetch pauses that was never tried")
    check_equal(fetches.paused.in_heap(), paused, "the heap of pauses")
    late = [digest for digest in paused if fetches.paused.rank_of(digest) <= agent.now]
    check(agent.stopping or not late, f"pauses are over and were not ended: {late}")
    for digest, fetch in fetches.active.items():
        check_equal(digest, fetch.blob.digest, "a fetch is known by its blob")
        check(digest not in agent.cache.removing, f"{digest} is fetched and removed at once")
