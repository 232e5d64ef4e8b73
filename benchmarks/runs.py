"""Items through a fleet, or through rival processes: all of them, and how many a second."""

from __future__ import annotations

import time
from collections.abc import Sequence

from benchmarks.fleet import Fleet
from benchmarks.whole import WholeModel
from crowdpipe.client.session import Session
from crowdpipe.items_file import Arrays
from wire.transport import Transport


def drain(session: Session, items: Sequence[Arrays], *, barrier: bool = False) -> None:
    """Run them, and look at no result."""
    for _ in session.run_many(items, barrier=barrier):
        pass


def rate(session: Session, items: Sequence[Arrays], transport: Transport | None = None) -> float:
    """Items a second, as they are completed."""
    begun = time.perf_counter()
    count = sum(1 for _ in session.run_many(items, ordered=False, transport=transport))
    return count / (time.perf_counter() - begun)


def rate_unwatched(
    fleet: Fleet, session: Session, items: Sequence[Arrays], transport: Transport | None = None
) -> float:
    """The same without the watcher, which reads all that everybody says."""
    with fleet.unwatched():
        return rate(session, items, transport)


def rate_of_processes(rivals: Sequence[WholeModel], count: int) -> float:
    """Items a second of all at once, each with its part of the items."""
    begun = time.perf_counter()
    for rival in rivals:
        rival.begin(count // len(rivals))
    done = sum(len(rival.finish()) for rival in rivals)
    return done / (time.perf_counter() - begun)
