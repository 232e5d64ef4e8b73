"""Waiting until the orchestrator has seen what was done to the store: it looks once a second."""

from __future__ import annotations

from pathlib import Path

from crowdpipe.home import read_up
from crowdpipe.watching.login import WATCHER, login_of
from crowdpipe.watching.observation import Observation
from crowdpipe.watching.watcher import Watcher

LIMIT_S = 10.0


def await_announced(home: Path, name: str, digest: str | None) -> None:
    """Return once model `name` is announced with this digest, or no more if it is None. At once
    if nothing is served. Raises `TimedOut`, or what keeps a watcher from the broker."""
    record = read_up(home)
    if record is None:
        return

    def seen_it(seen: Observation) -> bool:
        found = seen.models.get(name)
        return (found.digest if found else None) == digest

    with Watcher(login_of(home, record.url, WATCHER)) as watcher:
        watcher.wait(seen_it, LIMIT_S, f"the orchestrator to take notice of model {name!r}")
