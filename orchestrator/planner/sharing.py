"""Ranges for fewer devices than there must be partitions: one device loads several in turns.

The fewest ranges, or as many as were asked for, whose slowest is the fastest. Who gets which is
placement: neighbours go to different devices, and the least used comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Offer, Room, SegmentRange
from orchestrator.planner.stages import Stage, Work, stage_of
from wire.manifest import Manifest

_Options = dict[int, list[tuple[SegmentRange, Stage]]]


@dataclass(frozen=True, slots=True)
class _Path:
    pace_s: float
    fill_s: float
    ranges: tuple[SegmentRange, ...]

    def grown(self, each: SegmentRange, stage: Stage) -> _Path:
        pace_s = max(self.pace_s, stage.pace_s)
        return _Path(pace_s, self.fill_s + stage.fill_s, (*self.ranges, each))

    @property
    def score(self) -> tuple[float, float]:
        return self.pace_s, self.fill_s


def shared_ranges(
    manifest: Manifest, work: Work, fleet: Sequence[Offer], wanted: int | None
) -> tuple[SegmentRange, ...] | None:
    """None if even so the model does not fit. A range is streamed only if it was asked for and
    fits no other way: loading in turns is rarer than for each item."""
    for streamed in (False, True) if wanted is not None else (False,):
        options = _options(manifest, work, fleet, streamed)
        found = _fewest(options, len(manifest.segments), wanted)
        if found is not None:
            return found
    return None


def _options(manifest: Manifest, work: Work, fleet: Sequence[Offer], streamed: bool) -> _Options:
    """Each range with the stage of the device that is through with it soonest."""
    best: dict[tuple[int, int], tuple[SegmentRange, Stage]] = {}
    for offer in fleet:
        for each in _ranges(manifest, offer, streamed):
            weights = _weights(manifest, each) if each.streamed else None
            stage = stage_of(work, offer, each.first, each.last, weights)
            known = best.get((each.first, each.last))
            if known is None or stage.pace_s < known[1].pace_s:
                best[each.first, each.last] = (each, stage)
    options: _Options = {}
    for pair in best.values():
        options.setdefault(pair[0].first, []).append(pair)
    return options


def _ranges(manifest: Manifest, offer: Offer, streamed: bool) -> Iterator[SegmentRange]:
    room = Room(Needs(manifest), offer)
    for first in range(len(manifest.segments)):
        for last, must_stream in room.ranges(first):
            if streamed or not must_stream:
                yield SegmentRange(first, last, must_stream)


def _weights(manifest: Manifest, each: SegmentRange) -> int:
    return sum(segment.weight_nbytes for segment in manifest.segments[each.first : each.last + 1])


def _fewest(options: _Options, end: int, wanted: int | None) -> tuple[SegmentRange, ...] | None:
    layer = {0: _Path(0.0, 0.0, ())}
    for number in range(1, (wanted or end) + 1):
        layer = _more(options, layer)
        if end in layer and wanted in (None, number):
            return layer[end].ranges
    return None


def _more(options: _Options, layer: dict[int, _Path]) -> dict[int, _Path]:
    """One more range on every path; of paths to the same cut the best stays."""
    grown: dict[int, _Path] = {}
    for cut, path in layer.items():
        for each, stage in options.get(cut, ()):
            new = path.grown(each, stage)
            old = grown.get(each.last + 1)
            if old is None or new.score < old.score:
                grown[each.last + 1] = new
    return grown
