"""A question to the planner as one value, and its answer: what a search in another thread takes.

Nothing here is shared with whoever asks: all of it is frozen, and what costs in proportion to the
number of devices is done by who answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.planner.offers import Fleet, SegmentRange
from orchestrator.planner.partitioning import partition, require, worth_asking
from orchestrator.planner.rates import DeviceFacts, Fact, Rates, offers_of
from orchestrator.planner.stages import Work
from wire.errors import CrowdpipeError
from wire.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Question:
    """`wanted`: so many partitions, or None for the planner's choice. `loaded`: devices that have
    something of the model in memory. `only_whether`: no ranges are needed, only the error if there
    can be none."""

    manifest: Manifest
    fleet: tuple[Fact, ...]  # as `DeviceFacts`, made of them by who answers
    rates: Rates
    wanted: int | None
    work: Work
    loaded: frozenset[str] = frozenset()
    only_whether: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """`ranges`, or the `kind` and `reason` of a typed error. `shortlist`: the devices that are
    worth ranking for each range."""

    ranges: tuple[SegmentRange, ...] | None
    kind: str = ""
    reason: str = ""
    shortlist: tuple[str, ...] = ()


def answer(question: Question) -> Answer:
    """Takes up to seconds with many devices."""
    manifest, work = question.manifest, question.work
    facts = [DeviceFacts(*each) for each in question.fleet]
    fleet = Fleet(offers_of(facts, question.rates))
    try:
        if question.only_whether:
            require(manifest, fleet, question.wanted)
            return Answer(())
        warm = _warm(question, facts)
        ranges = partition(manifest, fleet, question.wanted, work, warm)
    except CrowdpipeError as error:
        return Answer(None, error.kind, error.reason)
    return Answer(ranges, shortlist=worth_asking(manifest, fleet, work, warm))


def _warm(question: Question, facts: Iterable[DeviceFacts]) -> frozenset[str]:
    """Devices that have something of the model in memory or on disk."""
    blobs = {blob.digest for segment in question.manifest.segments for blob in segment.blobs}
    cached = (each.device for each in facts if not blobs.isdisjoint(each.cached))
    return question.loaded.union(cached)
