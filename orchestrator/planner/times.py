"""One segment's measured seconds on one device, as it is kept over a restart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SegmentTime:
    """`model` is the digest; `seconds` of one task, with the segment loaded."""

    model: str
    exact: bool
    device: str
    segment: int
    seconds: float
