"""What the orchestrator tells of models: that it has seen what was done to the store, at which it
looks once a second, and what their segments took on devices."""

from __future__ import annotations

from pathlib import Path

from crowdpipe.home import read_up
from crowdpipe.watching.login import WATCHER, login_of
from crowdpipe.watching.observation import Observation
from crowdpipe.watching.watcher import Watcher
from wire.errors import CrowdpipeError
from wire.manifest import Manifest

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


def segment_times(home: Path, manifest: Manifest) -> tuple[float | None, ...]:
    """Seconds that each segment took on devices; None where none ran it, or nothing is served."""
    unknown = (None,) * len(manifest.segments)
    record = read_up(home)
    if record is None:
        return unknown
    told: list[tuple[float | None, ...]] = []

    def note(seen: Observation) -> bool:
        found = seen.models.get(manifest.name)
        if found is not None and found.digest == manifest.digest:
            told.append(found.segment_s)
        return True

    try:
        with Watcher(login_of(home, record.url, WATCHER)) as watcher:
            watcher.wait(note, LIMIT_S, "what is retained")
    except CrowdpipeError:  # a model is shown without it too
        return unknown
    return told[0] if told and len(told[0]) == len(unknown) else unknown
