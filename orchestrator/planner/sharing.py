"""Ranges for fewer devices than there must be partitions: one device loads several in turns.

The fewest ranges, or as many as were asked for, whose slowest is the fastest. Who gets which is
placement: neighbours go to different devices, and the least used comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.planner.kinds import Kind
from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import SegmentRange
from orchestrator.planner.options import Rows, rows_of
from orchestrator.planner.stages import Stage, Work

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
    needs: Needs, work: Work, kinds: Sequence[Kind], wanted: int | None
) -> tuple[SegmentRange, ...] | None:
    """None if even so the model does not fit. A range is streamed only if it was asked for and
    fits no other way: loading in turns is rarer than for each item."""
    rows = rows_of(needs, work, kinds)
    for streamed in (False, True) if wanted is not None else (False,):
        options = _options(rows, kinds, streamed)
        found = _fewest(options, needs.count, wanted)
        if found is not None:
            return found
    return None


def _options(rows: Rows, kinds: Sequence[Kind], streamed: bool) -> _Options:
    """Each range with the stage of the device that is through with it soonest."""
    options: _Options = {}
    for first, row in enumerate(rows):
        best: dict[int, tuple[SegmentRange, Stage]] = {}
        for end, fill_s, pace_s, kind, must_stream in row:  # the fastest pace first
            if end not in best and (streamed or not must_stream):
                device = kinds[kind].devices[0]
                each = SegmentRange(first, end - 1, must_stream, device)
                best[end] = (each, Stage(fill_s, pace_s))
        options[first] = list(best.values())
    return options


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
