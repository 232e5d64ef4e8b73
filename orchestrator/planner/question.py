"""A question to the planner as one value, and its answer: what a search in another thread takes.

Nothing here is shared with whoever asks: all of it is frozen.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.planner.offers import Offer, SegmentRange
from orchestrator.planner.partitioning import partition, require, worth_asking
from orchestrator.planner.stages import Work
from wire.errors import CrowdpipeError
from wire.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Question:
    """`wanted`: so many partitions, or None for the planner's choice. `only_whether`: no ranges are
    needed, only the error if there can be none. `preferred`: devices to look at first where there
    are too many to look at all."""

    manifest: Manifest
    fleet: tuple[Offer, ...]
    wanted: int | None
    work: Work
    only_whether: bool = False
    preferred: tuple[str, ...] = ()


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
        ranges = partition(
            question.manifest,
            question.fleet,
            question.wanted,
            question.work,
            question.preferred,
        )
    except CrowdpipeError as error:
        return Answer(None, error.kind, error.reason)
    worth = worth_asking(question.manifest, question.fleet, question.work, question.preferred)
    return Answer(ranges, shortlist=worth)
