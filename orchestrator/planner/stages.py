"""How long ranges take on devices, and a batch through all of them: the planner's measure.

A stage does three things that overlap from item to item: its input comes, it computes, its output
goes. The first item passes all of them one after another; every further item comes out one
slowest step later: a batch of n takes the sum of all stages plus (n - 1) times the slowest step.
Pure arithmetic over what `estimates` measured or guessed; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from orchestrator.planner.offers import Offer
from wire.manifest import Manifest

BATCH = 16  # items that a plan is made for when nobody said how many come
STREAMED_FACTOR = 1.1  # measured: 1.03 to 1.15 times the time of a resident partition
STREAMED_NBYTES_PER_S = 2e10  # mapping weights anew for each item, from the page cache
HANDLED_NBYTES_PER_S = 2.5e8  # frames through an MQTT client in Python, in or out (measured)
SWAP_ITEMS = 8  # items that pass before a device loads another of its partitions
SWAP_NBYTES_PER_S = 3e8
SWAP_SEGMENT_S = 0.02


@dataclass(frozen=True, slots=True)
class Work:
    """What one item costs: multiply-adds per segment and bytes per cut, as measured where a
    device has run them. `items`: how many are to come."""

    costs: tuple[float, ...]
    cut_nbytes: tuple[float, ...]
    items: int = BATCH
    _sums: tuple[float, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sums", (0.0, *accumulate(self.costs)))

    def cost(self, first: int, last: int) -> float:
        return self._sums[last + 1] - self._sums[first]

    def before(self, cut: int) -> float:
        """The cost of all segments before a cut; before the last one, of the whole model."""
        return self._sums[cut]

    @staticmethod
    def estimated(manifest: Manifest, items: int = BATCH) -> Work:
        """By operators and shapes at the symbols' bounds."""
        return Work(
            tuple(segment.cost for segment in manifest.segments),
            tuple(float(cut.bound_nbytes) for cut in manifest.cuts),
            items,
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """Seconds: `fill_s` for one item alone, `pace_s` between two items of many."""

    fill_s: float
    pace_s: float


def stage_of(
    work: Work, offer: Offer, first: int, last: int, streamed_nbytes: int | None = None
) -> Stage:
    """`streamed_nbytes`: the weights that are streamed for each item; None if they stay."""
    return Stage(*stage_seconds(work, offer, first, [(last, streamed_nbytes)])[0])


def stage_seconds(
    work: Work, offer: Offer, first: int, lasts: Iterable[tuple[int, int | None]]
) -> list[tuple[float, float]]:
    """`fill_s` and `pace_s` of the ranges from `first` to each of `lasts`, which come with the
    bytes of weights to stream, as in `stage_of`. Plain numbers: a search asks thousands."""
    link, speed = max(offer.link_nbytes_per_s, 1e-9), max(offer.cost_per_s, 1e-9)
    nbytes, in_nbytes, before = work.cut_nbytes, work.cut_nbytes[first], work.before(first)
    in_s, rtt_s, hop_s = in_nbytes / link, offer.rtt_s, offer.hop_s
    seconds = []
    for last, streamed_nbytes in lasts:
        out_nbytes = nbytes[last + 1]
        out_s, compute_s = out_nbytes / link, (work.before(last + 1) - before) / speed
        if streamed_nbytes is not None:
            compute_s = STREAMED_FACTOR * compute_s + streamed_nbytes / STREAMED_NBYTES_PER_S
        compute_s += hop_s + (in_nbytes + out_nbytes) / HANDLED_NBYTES_PER_S
        way_s = in_s if in_s > out_s else out_s
        pace_s = compute_s if compute_s > way_s else way_s
        seconds.append((in_s + rtt_s + compute_s + out_s, pace_s))
    return seconds


def shared(stages: Sequence[Stage], nbytes: Sequence[int], segments: Sequence[int]) -> Stage:
    """One device that serves several ranges, of which one at a time is loaded."""
    if len(stages) == 1:
        return stages[0]
    swap_s = sum(nbytes) / SWAP_NBYTES_PER_S + SWAP_SEGMENT_S * sum(segments)
    pace_s = sum(stage.pace_s for stage in stages) + swap_s / SWAP_ITEMS
    return Stage(sum(stage.fill_s for stage in stages) + swap_s, pace_s)


def batch_s(stages: Iterable[Stage], items: int) -> float:
    """Seconds until the last of `items` is out."""
    listed = list(stages)
    pace_s = max((stage.pace_s for stage in listed), default=0.0)
    return sum(stage.fill_s for stage in listed) + (items - 1) * pace_s
