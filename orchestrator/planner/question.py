"""A question to the planner as one value, and its answer: what a search in another thread takes.

Nothing here is shared with whoever asks: all of it is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.planner.offers import Offer, SegmentRange
from orchestrator.planner.partitioning import partition, require
from orchestrator.planner.stages import Work
from wire.errors import CrowdpipeError
from wire.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Question:
    """`wanted`: so many partitions, or None for the planner's choice. `only_whether`: no ranges are
    needed, only the error if there can be none."""

    manifest: Manifest
    fleet: tuple[Offer, ...]
    wanted: int | None
    work: Work
    only_whether: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """`ranges`, or the `kind` and `reason` of a typed error. `shortlist`: the devices that were
    worth looking at."""

    ranges: tuple[SegmentRange, ...] | None
    kind: str = ""
    reason: str = ""
    shortlist: tuple[str, ...] = ()


def answer(question: Question) -> Answer:
    """Takes up to seconds with many devices."""
    try:
        if question.only_whether:
            require(question.manifest, question.fleet, question.wanted)
            return Answer(())
        ranges = partition(question.manifest, question.fleet, question.wanted, question.work)
    except CrowdpipeError as error:
        return Answer(None, error.kind, error.reason)
    return Answer(ranges, shortlist=tuple(each.device for each in question.fleet[:64]))
