"""Chooses, of very many kinds of devices, the few that a search for a plan looks at.

A plan has at most as many ranges as the model has segments, so of thousands of devices few can be
in it, and which ones depends on how large its ranges are. So kinds are ranked once for each size
of a range, halved from the whole model down to one segment, by how soon a batch passes a range of
that size there: speed, link, delays and streaming count as they do in a plan, and a device that
lacks the memory, disk or operators is not ranked. Two more rankings are for what such a range does
not show: the largest budgets, where a model needs many devices to fit at all, and for each segment
that few devices take the best of those. The list takes from each ranking in turn.

What is lost: a device that is left out has, for ranges of each size, others that are better. One
of those is free unless the plan uses them all, so a plan with it could be better only between
sizes or at cuts that are unlike those of the sample, by little. If the list holds no plan at all,
`partitioning` asks for a longer one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from heapq import nsmallest
from itertools import zip_longest
from operator import ge

from orchestrator.planner.kinds import Kind
from orchestrator.planner.needs import Needs
from orchestrator.planner.offers import Offer, streams
from orchestrator.planner.stages import Work, stage_of

_Span = tuple[int, int]  # first and last segment


def shortlist(
    kinds: Sequence[Kind], needs: Needs, work: Work, most: int, preferred: Collection[str] = ()
) -> list[Kind]:
    """At most so many kinds. Up to half of them are the best of those with a `preferred` device."""
    if len(kinds) <= most:
        return list(kinds)
    names = frozenset(preferred)
    liked = [kind for kind in kinds if not names.isdisjoint(kind.devices)]
    chosen = dict.fromkeys(map(id, shortlist(liked, needs, work, most // 2)))
    for kind in _Rankings(kinds, needs, work, most).in_turn():
        if len(chosen) == most:
            break
        chosen[id(kind)] = None
    return [kind for kind in kinds if id(kind) in chosen]


class _Rankings:
    """Of each the first `most`, without those who do not take the range."""

    def __init__(self, kinds: Sequence[Kind], needs: Needs, work: Work, most: int) -> None:
        self._kinds, self._needs, self._work, self._most = kinds, needs, work, most

    def in_turn(self) -> Iterator[Kind]:
        """The first of each ranking, the second of each, and so on."""
        rankings = [self._by_span(span) for span in _sample(self._needs)]
        rankings += [self._by_budget(), self._of_scarce_segments()]
        for rank in zip_longest(*rankings):
            yield from (kind for kind in rank if kind is not None)

    def _by_span(self, span: _Span) -> list[Kind]:
        """By the seconds of a batch of which this range is the slowest part."""
        timed = [
            (seconds, number)
            for number, kind in enumerate(self._kinds)
            if (seconds := self._batch_s(kind.offer, *span)) is not None
        ]
        return [self._kinds[number] for _, number in nsmallest(self._most, timed)]

    def _batch_s(self, offer: Offer, first: int, last: int) -> float | None:
        streamed = streams(self._needs, offer, first, last)
        if streamed is None:
            return None
        nbytes = self._needs.weight_nbytes(first, last) if streamed else None
        stage = stage_of(self._work, offer, first, last, nbytes)
        return stage.fill_s + (self._work.items - 1) * stage.pace_s

    def _by_budget(self) -> list[Kind]:
        """More than the whole model needs is of no use."""
        whole = self._needs.resident[0][-1]
        ranked = [
            (-min(kind.offer.budget_nbytes, whole), -kind.offer.cost_per_s, number)
            for number, kind in enumerate(self._kinds)
        ]
        return [self._kinds[number] for _, _, number in nsmallest(self._most, ranked)]

    def _of_scarce_segments(self) -> list[Kind]:
        """The best for each segment that not everybody takes, the second best for each, …"""
        scarce = [self._by_span((index, index)) for index in _hardest(self._needs)]
        ranks = zip_longest(*(each for each in scarce if len(each) < self._everybody))
        return [kind for rank in ranks for kind in rank if kind is not None]

    @property
    def _everybody(self) -> int:
        return min(self._most, len(self._kinds))


def _sample(needs: Needs) -> list[_Span]:
    """A range of each size from the middle of the model, where that is cut with fewest bytes."""
    spans, size = [(0, needs.count - 1)], needs.count
    while size > 1:
        size = (size + 1) // 2
        starts = range(max(0, (needs.count - size) // 2 - size // 2), needs.count - size + 1)
        near = starts[: size + 1]
        first = min(near, key=lambda start: needs.hold_nbytes(start, start + size - 1))
        spans.append((first, first + size - 1))
    return spans


def _hardest(needs: Needs) -> list[int]:
    """Segments of which no other needs as much of everything."""
    wants = [_wants(needs, index) for index in range(needs.count)]
    return [
        index
        for index, mine in enumerate(wants)
        if not any(
            all(map(ge, other, mine)) and (other != mine or number < index)
            for number, other in enumerate(wants)
            if number != index
        )
    ]


def _wants(needs: Needs, index: int) -> tuple[int, ...]:
    tables = (needs.resident, needs.streamed, needs.disk, needs.opsets)
    return (*(table[index][0] for table in tables), needs.hold_nbytes(index, index))
