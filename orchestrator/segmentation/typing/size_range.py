"""The greatest value of a term over all sizes that inputs may have.

All are tried where they are few; else intervals bound it, never below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from orchestrator.segmentation.typing.formulas import (
    MAX_POINTS,
    MAX_VALUES,
    Formula,
    Interval,
    Term,
    integer_at,
    interval_of,
    names_of,
    parts_of,
    value_at,
)
from orchestrator.segmentation.typing.relations import Relations


class SizeRange:
    """Free dimensions from 1 to their `bounds`; those that follow where they are sizes, and at most
    their `limits`."""

    def __init__(
        self, bounds: Mapping[str, int], relations: Relations, limits: Mapping[str, int]
    ) -> None:
        self._bounds = dict(bounds)
        self._relations = relations
        self._limits = dict(limits)
        self._known: dict[Term, int | None] = {}
        self._at_bounds = relations.completed(bounds)
        self._ranges = self._all_ranges()
        self._values: dict[Formula, Any] = {}
        self._intervals: dict[Formula, Interval] = {}

    def most(self, term: Term) -> int | None:
        """None if the term is a size nowhere, or nothing bounds it."""
        if isinstance(term, int | float):
            return int(term)
        if term not in self._known:
            self._known[term] = self._most(term)
        return self._known[term]

    def _most(self, term: Term) -> int | None:
        top = interval_of(term, self._ranges, self._intervals)[1]
        if (
            self._at_bounds
            and not self._limits
            and integer_at(term, self._at_bounds, self._values) == top
        ):
            return int(top)  # most sizes grow with the inputs: no more can be, and this is reached
        free = self._relations.free(names_of(term))
        points = math.prod(self._bounds[name] for name in free)
        if points <= MAX_POINTS and points * parts_of(term) <= MAX_VALUES:
            return self._most_of_all(term, free)
        return int(top) if math.isfinite(top) and top >= 0 else None

    def _reached(self, term: Term) -> int | None:
        """The value at the bounds, if inputs may have these together."""
        if self._at_bounds is None or self._limits:
            return None
        return integer_at(term, self._at_bounds, self._values)

    def _most_of_all(self, term: Term, free: list[str]) -> int | None:
        axes = [np.arange(1, self._bounds[name] + 1, dtype=np.float64) for name in free]
        sizes: dict[str, Any] = dict(zip(free, np.ix_(*axes), strict=True))
        allowed = np.array(True)
        for name, following in self._relations.following.items():
            if names_of(following) <= set(free):
                sizes[name] = value_at(following, sizes)
                limit = self._limits.get(name, math.inf)
                allowed = allowed & (sizes[name] >= 0) & (sizes[name] <= limit)
        values = np.asarray(value_at(term, sizes))
        good = np.isfinite(values) & (values >= 0) & allowed
        top = np.max(np.where(good, values, -1))
        return int(top) if top >= 0 else None

    def _all_ranges(self) -> dict[str, Interval]:
        ranges: dict[str, Interval] = {n: (1.0, float(b)) for n, b in self._bounds.items()}
        for name, following in self._relations.following.items():
            low, high = interval_of(following, ranges)
            ranges[name] = (max(low, 0.0), min(high, self._limits.get(name, math.inf)))
        return ranges
