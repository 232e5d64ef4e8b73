"""The bounds of the inputs' dimensions: as wide as the model can take, and in its relations.

What a dimension's name says of others ("past + 1") always holds. What the graph says (a mask that
is added to scores) is a relation where the bounds do not fit without it: a size of 1 would be
broadcast. Where relations do not help, one limit for all is searched.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from orchestrator.segmentation.reading.walk import Dataflow
from orchestrator.segmentation.typing.bounds_fit import largest_fitting
from orchestrator.segmentation.typing.node_view import KnownTerms
from orchestrator.segmentation.typing.related_bounds import related_bounds
from orchestrator.segmentation.typing.relations import Relations, relations_of, violated
from orchestrator.segmentation.typing.shape_inference import ShapeInference
from orchestrator.segmentation.typing.size_flow import follow_sizes, named_equations
from orchestrator.segmentation.typing.size_range import SizeRange


@dataclass(frozen=True, slots=True)
class FittingBounds:
    """`free` are the bounds of the dimensions from which all others follow by `relations`, and
    `limits` the wished bounds of such others; at `sizes` the model's shapes were inferred. `known`
    are the terms of all values if nothing changed the bounds after these were found."""

    free: dict[str, int]
    relations: Relations
    limits: dict[str, int]
    sizes: dict[str, int]
    notes: tuple[str, ...]
    known: KnownTerms | None = None

    @property
    def reach(self) -> SizeRange:
        """All sizes that inputs may have."""
        return SizeRange(self.free, self.relations, self.limits)


def fitting_bounds(
    asking: ShapeInference, flow: Dataflow, wide: dict[str, int], wished: Collection[str]
) -> FittingBounds:
    """`wide` are wishes and defaults. Raises `UserError` for wishes that contradict each other."""
    named = relations_of(*named_equations(wide), wished)
    first = _Attempt(asking, wide, wished, named)
    fits = first.fits(first.bounds)
    known = follow_sizes(
        flow,
        asking.at(first.sizes) if fits else asking.named_values,
        {name: max(size, first.sizes[name]) for name, size in wide.items()},
    )
    if fits and not violated(known.equations, first.sizes):
        return replace(first.found(first.bounds), known=known)
    second = _related(asking, wide, wished, known, first)
    if second is not None:
        bounds = second.lowered()
        if second.fits(bounds):
            return second.found(bounds)
    return first.found(first.bounds if fits else first.lowered())


def _related(
    asking: ShapeInference,
    wide: dict[str, int],
    wished: Collection[str],
    known: KnownTerms,
    first: _Attempt,
) -> _Attempt | None:
    """With the relations that hold at the bounds only if dimensions follow; None if there are no
    more than there were. One that follows may break the next, so they are looked for again."""
    attempt, needed = first, list(named_equations(wide, known.book)[0])
    for _ in known.equations:
        more = [one for one in violated(known.equations, attempt.sizes) if one not in needed]
        if not more:
            break
        needed += more
        attempt = _Attempt(asking, wide, wished, relations_of(needed, known.book, wished))
    return None if attempt is first else attempt


class _Attempt:
    """One set of relations, and the bounds that it gives."""

    def __init__(
        self,
        asking: ShapeInference,
        wide: dict[str, int],
        wished: Collection[str],
        relations: Relations,
    ) -> None:
        self._asking, self._wide, self._wished = asking, wide, wished
        self._relations = relations
        self._limits = {n: wide[n] for n in relations.following if n in wished}
        self.bounds = related_bounds(wide, wished, relations)

    @property
    def sizes(self) -> dict[str, int]:
        """Of all dimensions at the bounds, as far as they agree."""
        return self._relations.completed(self.bounds) or self._wide

    def fits(self, bounds: dict[str, int]) -> bool:
        sizes = self._relations.completed(bounds)
        return sizes is not None and self._asking.fits(sizes)

    def lowered(self) -> dict[str, int]:
        return largest_fitting(self.bounds, self._wished, self.fits)

    def found(self, bounds: dict[str, int]) -> FittingBounds:
        sizes = self._relations.completed(bounds) or {**self._wide, **bounds}
        notes = tuple(_note(n, size) for n, size in bounds.items() if size < self.bounds[n])
        return FittingBounds(bounds, self._relations, self._limits, sizes, notes)


def _note(name: str, size: int) -> str:
    return (
        f"dimension {name!r} is bounded at {size}: at more the model's shapes contradict each other"
    )
